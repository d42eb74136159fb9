"""experiments/perturb.py: noise, events, and repeated measurements."""

import json
import shutil

import pytest
from helpers import change_events
from helpers import perturb

from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import RunFinished

SIGMAS = ("0", "2")


@pytest.fixture(scope="module")
def run_dir(finished_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "run"
    shutil.copytree(finished_run, path)
    return path


def answer_of(capsys, *words):
    assert perturb(*words) == 0
    output = capsys.readouterr().out
    return json.loads(output.splitlines()[-1]), output


def points_of(run_dir):
    """The lines that experiments/perturb.py logged."""
    lines = (event.line for event in RunDirectory(run_dir).events())
    return [line for line in lines if line["event"] == "perturbation"]


@pytest.mark.large
def test_noise_is_measured_once_for_each_model_seed_and_sigma(
    run_dir, tmp_path, capsys
):
    picture = tmp_path / "noise.svg"
    words = (
        run_dir / "student", run_dir / "control", "--scale", "mean_magnitude",
        "--sigmas", *SIGMAS, "--seeds", 0, 1, "--curves", picture,
    )  # fmt: skip
    answer, output = answer_of(capsys, *words)
    assert answer["scale"] == "mean_magnitude"
    measured = [
        (point["model"], point["sigma"], point["seed"])
        for point in answer["points"]
    ]
    assert measured == [
        (arm, sigma, seed)
        for arm in ("student", "control")
        for sigma, seed in ((0, 0), (2, 0), (2, 1))
    ]
    finished = RunDirectory(run_dir).events(RunFinished)[0].best
    for point in answer["points"]:
        if point["sigma"] == 0:
            best = finished[point["model"]].metrics
            assert point["metrics"] == pytest.approx(best)
    assert "student" in picture.read_text()
    assert "±" in output
    noted = points_of(run_dir)
    assert len(noted) == len(measured)
    again, _ = answer_of(capsys, *words)
    assert again == answer
    assert points_of(run_dir) == noted
    # Noise of another scale is another measurement.
    answer_of(capsys, run_dir, "--sigmas", "2", "--seeds", "0")
    assert len(points_of(run_dir)) == len(noted) + 1


@pytest.mark.large
def test_points_of_other_data_of_the_same_name_are_measured_anew(
    run_dir, tmp_path, capsys
):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    words = [
        *(run_dir, "--task", "sst2", "--data-dir", tmp_path),
        *("--sigmas", 0, "--sequence-length"),
    ]

    def accuracy(labels, length):
        rows = [f"the plot is superb\t{label}" for label in labels]
        for split in ("train", "dev"):
            (folder / f"{split}.tsv").write_text(
                "\n".join(["sentence\tlabel", *rows, ""])
            )
        answer, _ = answer_of(capsys, *words, length)
        noted = points_of(run_dir)
        return answer["points"][0]["metrics"]["accuracy"], len(noted)

    first, count = accuracy("110", 32)
    assert accuracy("001", 32) == (pytest.approx(1 - first), count + 1)
    assert accuracy("110", 8)[1] == count + 2
    assert accuracy("110", 32) == (first, count + 2)


@pytest.mark.large
def test_points_that_do_not_say_of_what_content_are_not_known(
    run_dir, tmp_path, capsys
):
    copy = tmp_path / "old"
    shutil.copytree(run_dir, copy)
    words = (copy, "--sigmas", 0)
    answer, _ = answer_of(capsys, *words)
    log = copy / "metrics.jsonl"
    *others, last = log.read_text().splitlines()
    event = json.loads(last)
    for name in ("data_digest", "sequence_length", "own_digest"):
        del event[name]
    event["metrics"] = {"accuracy": 2.0}
    log.write_text("\n".join([*others, json.dumps(event), ""]))
    assert answer_of(capsys, *words)[0] == answer


def diverge(run, *points):
    """Notes of a run's (σ, seed) what is noted of a loss that is not finite."""

    def lose_metrics(event):
        if (event.get("sigma"), event.get("seed")) in points:
            event["metrics"] = {}

    change_events(run, lose_metrics)


@pytest.mark.large
def test_means_say_how_many_seeds_were_finite(run_dir, tmp_path, capsys):
    run, picture = tmp_path / "run", tmp_path / "noise.svg"
    shutil.copytree(run_dir, run)
    words = (
        *(run, "--scale", "mean_magnitude", "--sigmas", 0, 2),
        *("--seeds", 0, 1, 2, "--curves", picture),
    )
    answer, output = answer_of(capsys, *words)
    assert "of 3)" not in output
    diverge(run, (2, 1), (2, 2))
    _, output = answer_of(capsys, *words)
    (left,) = [
        point["metrics"]["accuracy"]
        for point in answer["points"]
        if (point["sigma"], point["seed"]) == (2, 0)
    ]
    assert f"{left:.4f} (1 of 3)" in output
    assert "n seeds that were" in " ".join(output.split())
    assert "hollow" in picture.read_text()
    diverge(run, (2, 0))
    assert "not finite" in answer_of(capsys, *words)[1]
    assert "hollow" not in picture.read_text()


@pytest.mark.large
def test_noise_under_which_nothing_is_finite_is_told(run_dir, tmp_path, capsys):
    run, picture = tmp_path / "run", tmp_path / "noise.svg"
    shutil.copytree(run_dir, run)
    words = (run, "--sigmas", 2, "--seeds", 0, "--metric", "accuracy")
    answer_of(capsys, *words)
    diverge(run, (2, 0))
    assert perturb(*words, "--curves", picture) == 1
    assert "No measurement was finite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sigmas", "-1", "0"], "finite numbers of 0 or more. Received: -1"),
        (["--metric", "bleu", "--sigmas", "0"], "must be one of accuracy"),
        (["--scale", "median"], "invalid choice: 'median'"),
        (["RUN"], "Expected models that differ"),
        (["x.tflite"], "Pass the run that they were exported from"),
        (["missing/model"], "missing/model does not exist"),
        (["--sequence-length", "0"], "from 1 to 65536"),
        (["--seeds", "-1"], "a seed from 0 to 4294967295"),
    ],
)
def test_mistakes_are_told(run_dir, words, message, tmp_path, capsys):
    file = tmp_path / "x.tflite"
    file.touch()
    words = [str(file) if word == "x.tflite" else word for word in words]
    words = [str(run_dir) if word == "RUN" else word for word in words]
    assert perturb(run_dir, *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.large
def test_noise_is_compared_on_the_same_rows_alone(run_dir, tmp_path, capsys):
    """Two runs of a task may have read different files of one name."""
    runs = [tmp_path / name for name in ("one", "other")]
    for run in runs:
        shutil.copytree(run_dir, run)
        (run / "data" / "SST-2").mkdir(parents=True)
        for split in ("train", "dev"):
            (run / "data" / "SST-2" / f"{split}.tsv").write_text(
                "sentence\tlabel\nthe plot is superb\t1\nit is dull\t0\n"
            )
        config = json.loads((run / "config.json").read_text())
        config["data"] |= {"task": "sst2", "data_dir": str(run / "data")}
        (run / "config.json").write_text(json.dumps(config))
    words = [*runs, "--sigmas", "0"]
    assert perturb(*words) == 0
    (runs[1] / "data" / "SST-2" / "dev.tsv").write_text(
        "sentence\tlabel\nthe plot is superb\t1\nit is drab\t0\n"
    )
    capsys.readouterr()
    assert perturb(*words) == 2
    assert "compared on the same data" in capsys.readouterr().err
    assert perturb(*words, "--data-dir", runs[0] / "data") == 0
