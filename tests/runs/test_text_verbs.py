"""Files and texts of models of text: export, benchmark, generate."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from kit import adapter
from kit import goldens as comparing_goldens
from kit.adapter import command
from kit.helpers import ENGLISH, read_events
from kit.run_checks import PRECISIONS, file_of
from kit.runs import RUNS

from kdkit import data, export
from kdkit.generation import TextWriter

NAMES = [name for name, run in RUNS.items() if run.kind == "text"]
TOKENS = [3, 17, 42, 8, 61]
SOURCE = [9, 30, 21, 5]  # of encoder-decoders
CAPACITY = 8  # of the files, in tokens
# The student ends each text at once.
WRITERS = {"spans_and_pairs": "@spans_and_pairs/teacher_run"}


def files_of(workspace, name):
    """The folder of a run's files, in no run."""
    more = ("--sequence-length", CAPACITY, "--precision", *PRECISIONS)
    return workspace.exported(name, *more)


@pytest.fixture(scope="module")
def copies(workspace, tmp_path_factory):
    """Copies of the runs, with the files in them, for verbs that note."""
    folder = tmp_path_factory.mktemp("copies")

    class Copies(dict):
        def __missing__(self, name):
            run = self[name] = workspace.copy(name, folder / name)
            shutil.copytree(files_of(workspace, name), run / "exports")
            return run

    return Copies()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
def test_files_of_text_models_give_the_golden_logits(
    name, precision, workspace
):
    file = file_of(files_of(workspace, name), precision)
    source = SOURCE if name == "spans_and_pairs" else None
    logits = adapter.token_logits(file, source, TOKENS)
    key, logits = f"{name} {precision}", comparing_goldens.summary(logits)
    comparing_goldens.check("exports", key, logits, RUNS[name].tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_generated_text_is_the_golden_one(name, workspace):
    workspace.make(name)
    prompt = ("--prompt", "the film", "--max-tokens", "8")
    words = ("generate", WRITERS.get(name, f"@{name}"), *prompt)
    comparing_goldens.check("verbs", name, workspace.run(*words))


@pytest.mark.parametrize("name", NAMES)
def test_files_are_compared_on_held_out_text(name, workspace):
    files_of(workspace, name)
    run = workspace.exported_run(name)
    events = read_events(run, "export")[: len(PRECISIONS)]
    assert [event["precision"] for event in events] == list(PRECISIONS)
    assert events[0]["max_abs_difference"] < 1e-4
    assert events[2]["size_bytes"] < events[0]["size_bytes"]
    for event in events:
        assert event["arm"] == "student"
        assert event["sequence_length"] == CAPACITY
    if name == "next_tokens":
        rows = data.open_packed(run / "corpus" / "held_out").rows
        count = np.count_nonzero(rows[:4, :CAPACITY] != data.PADDING)
        assert {event["examples"] for event in events} == {count}


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_timed(name, copies):
    run = copies[name]
    files = sorted((run / "exports").glob("*[28].tflite"))
    answer = command(("benchmark", *files, "--runs", "20", "--warmup", "1"))
    results = json.loads(answer.out.splitlines()[-1])["results"]
    assert [result["file"] for result in results] == list(map(str, files))
    reads = "reads_sources" if name == "spans_and_pairs" else "reads_tokens"
    events = read_events(run, "latency")
    assert [event["sequence_length"] for event in events] == [CAPACITY] * 2
    assert all(event[reads] for event in events)


def test_more_steps_than_there_is_room_for_can_be_timed(workspace):
    file = file_of(files_of(workspace, "next_tokens"), "fp32")
    report = export.measure_latency(file, runs=200, warmup=0)
    assert (report.runs, report.sequence_length) == (200, CAPACITY)


def generated(model, *more):
    answer = command(("generate", model, "--prompt", "a", *more))
    assert answer.status == 0, answer
    return answer.out


@pytest.mark.parametrize("name", NAMES)
def test_run_preset_and_file_write_the_same(name, copies, workspace, tmp_path):
    run = copies[name]
    file = file_of(run / "exports", "fp32")
    moved = shutil.copyfile(file, tmp_path / "moved.tflite")
    more = ("--max-tokens", 5 if name == "next_tokens" else CAPACITY)
    text = generated(run, *more)
    languages = ("--languages", *data.GENERATED_LANGUAGES)
    if name == "next_tokens":
        assert text.startswith("a")
        assert len(text) > len("a\n")
        languages = ()
    assert generated(run / "student", *more) == text
    assert generated(file, *more) == text
    answer = command(("generate", moved, *more))
    assert answer.status == 2
    assert "--tokenizer" in answer.err
    tokenizer = ("--tokenizer", run / "student")
    assert generated(moved, *more, *tokenizer, *languages) == text


def test_a_file_of_pairs_is_measured_as_its_model(copies, tmp_path):
    run = copies["spans_and_pairs"]
    for language, number in zip(data.GENERATED_LANGUAGES, (0, 1), strict=True):
        lines = [pair[number] for pair in list(data.generated_pairs())[:3]]
        (tmp_path / language).write_text("\n".join(lines))
    pairs = ("--pairs", *(tmp_path / one for one in data.GENERATED_LANGUAGES))
    more = ("--num-beams", 2, "--sequence-length", CAPACITY)
    found = []
    for model in (run, file_of(run / "exports", "fp32")):
        answer = command(("evaluate", model, *pairs, *more))
        found.append(json.loads(answer.out.splitlines()[-1])["metrics"])
    assert found[1].keys() == {"bleu", "chrf"}
    assert found[1].items() <= found[0].items()


def test_a_seed_draws_the_same_text_again(copies):
    file = file_of(copies["next_tokens"] / "exports", "int8")
    how = ("--sampler", "top_k", "--top-k", 40, "--temperature", 2)
    texts = [
        generated(file, *how, "--max-tokens", 6, "--seed", seed)
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_decoders_have_beams_too(workspace):
    workspace.make("next_tokens")
    how = ("--sampler", "beam", "--num-beams", "2", "--max-tokens", "4")
    workspace.run("generate", "@next_tokens", *how)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("evaluate @pretrained --sequence-length 8", "--sequence-length"),
        ("evaluate @pretrained --corpus @corpus.txt --stride 4", "--stride"),
        ("evaluate @pretrained --corpus @corpus.txt --arm student", "student"),
        ("evaluate @pretrained --corpus @corpus.txt --task sst2", "--task"),
        (
            "evaluate @pretrained --corpus @corpus.txt --sequence-length 64",
            "--sequence-length 32",
        ),
        # Masks are drawn again in every epoch.
        (
            "pretrain --recipe lightpaff --teacher @pretrained --model "
            "@pretrained --corpus @corpus.txt corpus.sequence_length=8 "
            "--cache @no_cache --run-dir @no_run",
            "every epoch",
        ),
        (
            "generate @spans_and_pairs --prompt a --sampler beam --num-beams 0",
            "beam_size=0",
        ),
        ("generate @spans_and_pairs --prompt a --sampler top_k", "'top_k'"),
        ("generate @spans_and_pairs --prompt a --num-beams 2", "--num-beams"),
        ("generate @spans_and_pairs --prompt a --languages en fr", "'fr'"),
        ("generate @next_tokens --prompt a --max-tokens 40", "32 tokens"),
    ],
)
def test_what_would_be_other_numbers_is_refused(line, named, workspace):
    for name in ("pretrained", *NAMES):
        if f"@{name}" in line:
            workspace.make(name)
    before = set(workspace.path.iterdir())
    answer = command(workspace.words(line.split()))
    assert answer.status == 2
    assert named in answer.err
    assert set(workspace.path.iterdir()) == before


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """A folder with lines to read, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.en").write_text("\n".join(ENGLISH))
    return tmp_path


def test_a_file_is_written_of_a_file_line_by_line(lines, workspace):
    workspace.make("spans_and_pairs")
    words = workspace.words(
        (
            *("generate", WRITERS["spans_and_pairs"], "--sampler", "beam"),
            *("--num-beams", "2", "--max-tokens", "6"),
            *("--input", "lines.en", "--output", "new/written.de"),
        )
    )
    answer = command(words)
    assert answer.status == 0
    # A teacher of a few updates does not know where a text ends.
    assert "texts have no end" in answer.err
    written = (lines / "new" / "written.de").read_text()
    assert len(written.splitlines()) == len(ENGLISH)
    again = command(words)
    assert again.status == 2
    assert "already exists" in again.err


@pytest.fixture
def pairing(lines, workspace, monkeypatch):
    """A command whose teacher writes nothing of what sleeps."""
    workspace.make("spans_and_pairs")

    def write(self, texts):
        return ["\u200b" if "sleeps" in text else "ein" for text in texts]

    monkeypatch.setattr(TextWriter, "__call__", write)
    return workspace.words(
        (
            *("generate", "@spans_and_pairs", "--input", "lines.en"),
            *("--kept-input", "en", "--output", "de"),
        )
    )


def check_pairs(folder):
    kept = [line for line in ENGLISH if "sleeps" not in line]
    assert 0 < len(kept) < len(ENGLISH)
    assert (folder / "en").read_text().splitlines() == kept
    assert (folder / "de").read_text().splitlines() == ["ein"] * len(kept)
    names = {path.name for path in folder.glob("[!.]*")}
    assert names == {"lines.en", "en", "de"}


def test_sources_of_empty_texts_are_dropped(pairing, lines):
    answer = command(pairing)
    assert answer.status == 0
    assert "dropped, with their sources" in answer.err
    check_pairs(lines)


@pytest.mark.parametrize("last", ["en", "de"])
def test_a_stop_while_pairs_get_their_names_loses_nothing(
    last, pairing, lines, monkeypatch
):
    replace = os.replace

    def stop_after(source, target, **more):
        replace(source, target, **more)
        if pathlib.Path(target).name == last:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop_after)
        assert command(pairing).status == 130
    assert (lines / last).exists()
    assert command(pairing).status == 0
    check_pairs(lines)


@pytest.mark.parametrize("name", ["lines.en", "there", "de"])
def test_no_file_is_written_over_by_pairs(name, pairing, lines):
    (lines / "there").write_text("mine")
    answer = command(name if word == "en" else word for word in pairing)
    assert answer.status == 2
    assert "already exists" in answer.err
    names = {path.name for path in lines.iterdir()}
    assert names == {"lines.en", "there"}
    assert (lines / "there").read_text() == "mine"


def test_writing_goes_on_where_it_was_stopped(lines, workspace, monkeypatch):
    """After 500 lines, in which the texts are saved."""
    workspace.make("spans_and_pairs")
    many = [f"line {number}" for number in range(501)]
    (lines / "many").write_text("\n".join(many))
    words = (
        "generate",
        "@spans_and_pairs",
        "--input",
        "many",
        "--output",
        "de",
    )
    words, told, calls = workspace.words(words), [], []

    def write(self, texts):
        calls.append(len(texts))
        if len(texts) < 500:
            told.append(command(words).err)  # of another process
        if calls == [500, 1]:
            raise KeyboardInterrupt
        return [text.upper() for text in texts]

    monkeypatch.setattr(TextWriter, "__call__", write)
    assert command(words).status == 130
    assert not (lines / "de").exists()
    with open(lines / "de.partial", "ab") as file:
        file.write(b'{"of": "')  # of a process that was killed
    changed = command((*words, "--max-tokens", "8"))
    assert changed.status == 2
    assert "was begun with another" in changed.err
    (lines / "de").write_text("mine")
    assert "already exists" in command(words).err
    (lines / "de").unlink()
    assert "Continuing after 500 texts." in command(words).out
    assert calls == [500, 1, 1]
    assert all("Another process writes" in one for one in told)
    expected = [line.upper() for line in many]
    assert (lines / "de").read_text().splitlines() == expected
    assert {path.name for path in lines.iterdir()} == {"lines.en", "many", "de"}
