"""From options to the settings of config.json: which student a recipe gets."""

import json
import logging
import shutil

import pytest
from kit.adapter import resolved


def settings(recipe, teacher, *words):
    return resolved(
        ["distill", recipe, "--task", "sst2", "--teacher", teacher]
        + ["--run-dir", "run", *words]
    )


def write_config(folder, **values):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    return folder


@pytest.fixture
def encoder(finished_run):
    """An encoder of three blocks, which was fine-tuned."""
    return str(finished_run / "teacher_run" / "teacher")


@pytest.fixture
def fine_tuned(encoder, tmp_path):
    """A teacher's run that records its encoder of three blocks."""
    return write_config(tmp_path / "teacher_run", model={"checkpoint": encoder})


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("some words\n")
    return str(file)


def test_student_starts_as_half_of_the_encoder_behind_the_teacher(
    fine_tuned, encoder
):
    made = settings("pkd", fine_tuned)
    assert made["pretrained"] == encoder
    assert made["student"]["copy_from"] == "pretrained"
    assert made["student"]["copy_layers"] == [1]  # of three
    words = ["--num-layers", "2", "--pretrained", encoder]
    made = settings("vanilla_kd", fine_tuned, *words)
    assert made["student"]["copy_layers"] == [1, 3]
    student = settings("tinybert", fine_tuned, "--num-layers", "3")["student"]
    assert (student["num_layers"], student["hidden_dim"]) == (3, 312)


def test_control_on_a_corpus_keeps_it_and_drops_the_teacher(
    finished_run, encoder, text
):
    words = ["--pretrained", encoder, "--corpus", text, "--control"]
    control = settings("distilbert", finished_run, *words)["control"]
    assert [stage["data"] for stage in control] == ["corpus", "task"]
    assert not any(stage["objectives"] for stage in control)


def test_settings_of_a_control_have_the_names_of_config_json(finished_run):
    words = ["--control", "--set", "control.fine_tuning.learning_rate=0.5"]
    words += ["--set", "stages.0.epochs=7"]
    made = settings("tinybert", finished_run, *words)
    (control,) = made["control"]
    assert control["learning_rate"] == 0.5
    assert control["epochs"] == sum(one["epochs"] for one in made["stages"])


@pytest.mark.parametrize(
    ("words", "share"), [([], 1.0), (["--unlabeled-per-labeled", "2.5"], 2.5)]
)
def test_unlabeled_text_comes_with_its_proportion(
    words, share, finished_run, text
):
    words = ["--unlabeled", text, "--unlabeled-columns", "text", *words]
    made = settings("tinybert", finished_run, *words)["unlabeled"]
    assert (made["files"], made["columns"]) == ([text], ["text"])
    assert made["per_labeled"] == share


def test_bilstm_is_as_wide_as_its_word_vectors(finished_run, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("film 0.1 0.2 0.3\n")
    words = ["--word-vectors", file]
    made = settings("distilled_bilstm", finished_run, *words)["student"]
    bilstm = made["bilstm"]
    assert (bilstm["embedding_dim"], bilstm["units"]) == (3, 150)
    assert bilstm["word_vectors"] == str(file)


def test_all_four_steps_of_lightpaff_come_from_an_encoder(encoder, text):
    words = ["distill", "lightpaff", "--task", "sst2", "--encoder", encoder]
    words += ["--run-dir", "run", "--corpus", text]
    made = resolved(words)
    assert made["pretrained"]["model"]["checkpoint"] == encoder
    assert made["pretrained"]["corpus"] == made["corpus"]
    assert made["teacher"]["model"]["checkpoint"] == "pretrained"
    assert made["teacher"]["data"] == made["data"]
    assert [stage["data"] for stage in made["stages"]] == ["corpus", "task"]
    words += ["--set", "jit_compile=false", "--mixed-precision", "bfloat16"]
    words += ["--set", "pretrained.corpus.sequence_length=64"]
    changed = resolved([*words, "--set", "data.max_train_rows=100"])
    assert changed["teacher"]["data"]["max_train_rows"] == 100
    assert changed["pretrained"]["corpus"]["sequence_length"] == 64
    for nested in (changed["teacher"], changed["pretrained"]):
        assert nested["jit_compile"] is False
        assert nested["dtype_policy"] == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("words", "length"),
    [
        (["--model", "SHORT"], 32),
        (["--model", "SHORT", "--set", "corpus.sequence_length=64"], 64),
        (
            [
                *("--student", "lightpaff_mass_6_4_layer", "--languages", "en"),
                *("--set", "model.mass.max_sequence_length=48"),
            ],
            48,
        ),
    ],
)
def test_rows_on_text_fit_the_model_unless_their_length_is_set(
    words, length, tmp_path
):
    sizes = {"max_sequence_length": 32}
    preset = write_config(tmp_path / "a", registered_name="x", config=sizes)
    words = [word.replace("SHORT", str(preset)) for word in words]
    words = ["pretrain", "--corpus", "a.txt", "--run-dir", "run", *words]
    assert resolved(words)["corpus"]["sequence_length"] == length


def test_pkd_starts_from_the_fine_tuned_teacher_where_no_other_is_known(
    finished_run, encoder, tmp_path, caplog
):
    caplog.set_level(logging.INFO, "kdkit")
    made = settings("pkd", encoder)
    assert made["pretrained"] is None
    assert made["student"]["copy_from"] == "teacher"
    assert "is not recorded" in caplog.text
    run = tmp_path / "teacher_run"
    shutil.copytree(finished_run / "teacher_run", run)
    log = (run / "metrics.jsonl").read_text().splitlines()
    others = [line for line in log if '"event": "inputs"' not in line]
    changed = {"event": "inputs", "time": 1, "digests": {"model": "0" * 16}}
    for checkpoint, lines, said in (
        ("/gone/bert", log, "is missing (/gone/bert)"),
        (encoder, [json.dumps(changed), *others], "has changed since"),
    ):
        write_config(run, model={"checkpoint": checkpoint})
        (run / "metrics.jsonl").write_text("\n".join([*lines, ""]))
        assert settings("pkd", run)["student"]["copy_from"] == "teacher"
        assert said in caplog.text


def test_a_recipe_that_learns_from_text_needs_the_pretrained_encoder(
    encoder, text
):
    with pytest.raises(ValueError, match="is not recorded. Pass --pretrained"):
        settings("distilbert", encoder, "--corpus", text)


@pytest.mark.parametrize(
    ("words", "rows", "epochs"),
    [
        ([], 1000, 32),  # 1,000 updates, 32 per epoch
        (["--batch-size", "100"], 1000, 50),  # the most epochs, 500 updates
        (["--batch-size", "8"], 1000, 8),
        (["--epochs", "2"], 1000, 2),
        (["--set", "stages.0.epochs=2"], 1000, 2),
        (["--parity", "pkd"], 1000, 4),
        ([], 32000, 4),
        (["--unlabeled", "TEXT"], 1000, 4),
    ],
)
def test_stages_on_small_tables_have_enough_updates(
    fine_tuned, text, words, rows, epochs
):
    words = [word.replace("TEXT", text) for word in words]
    words += ["--control", f"data.max_train_rows={rows}"]
    made = settings("pkd", fine_tuned, *words)
    for (stage,) in (made["stages"], made["control"]):
        assert stage["epochs"] == epochs


@pytest.fixture
def compiled(tmp_path):
    """A function: what XLA compiles of one stage on so many rows."""

    def find(rows, *words, run_dir="run"):
        table = tmp_path / "SST-2" / "train.tsv"
        table.parent.mkdir(exist_ok=True)
        lines = ["sentence\tlabel", *["fine\t1"] * rows, ""]
        table.write_text("\n".join(lines))
        return resolved(
            ["distill", "pkd", "--task", "sst2", "--data-dir", tmp_path]
            + ["--teacher", "t", "--student", "s", "--run-dir", run_dir]
            + ["stages.0.batch_size=1", "stages.0.epochs=2", *words]
        )["jit_compile"]

    return find


@pytest.mark.parametrize(
    ("rows", "words", "expected"),
    [
        (999, [], "update"),
        (1000, [], True),
        (1000, ["data.max_train_rows=999"], "update"),
        (999, ["jit_compile=true"], True),
        (999, ["jit_compile=false"], False),
    ],
)
def test_short_runs_compile_the_update_alone(rows, words, expected, compiled):
    """Below 2,000 updates a stage, on CPUs, unless another choice is made."""
    assert compiled(rows, *words) == expected


@pytest.mark.parametrize("value", [True, "update"])
@pytest.mark.parametrize("rows", [10, 1000])
def test_a_run_that_was_begun_compiles_what_it_did(
    value, rows, compiled, tmp_path
):
    run = write_config(tmp_path / "begun", jit_compile=value)
    assert compiled(rows, run_dir=run) == value
