"""Files of strangers: bounded memory, a clear line, nothing outside touched."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest

from kdkit.cli.main import main
from kdkit.cli.writing_texts import show
from kdkit.data.copies import read_copies
from kdkit.data.labels import label_parser
from kdkit.data.problems import read_lines
from kdkit.data.word_vectors import read_word_vectors
from kdkit.disk import describe
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.reading import MAX_LINE_BYTES
from kdkit.reading import check_links
from kdkit.reading import json_lines
from kdkit.reading import numbered_lines
from kdkit.reading import parse_json
from kdkit.reading import read_json
from kdkit.reporting import markdown_results
from kdkit.reporting import read_run
from kdkit.reporting.html import render_report
from kdkit.reporting.terminal import print_report
from kdkit.reporting.trade_off import plot_trade_off
from kdkit.settings import override
from kdkit.teacher_cache.index import Index
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_directory import open_run
from kdkit.training.run_directory import read_config
from kdkit.training.run_settings import DataSettings

ROOT = pathlib.Path(__file__).parent.parent
EVIL = "<script>alert(1)</script>\x1b]0;owned\x07$\\frac{"


def in_little_memory(code, megabytes=512):
    """Runs code in a process that may take so much more than its imports."""
    limit = (
        "import resource, sys\n"
        "from kdkit.errors import UsageError\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        f"most = used + {megabytes} * 2**20\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", f"{code[0]}\n{limit}{code[1]}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_line_of_100_megabytes_is_refused_in_little_memory(tmp_path):
    path = tmp_path / "text"
    with open(path, "wb") as file:
        file.write(b"one\n")
        for _ in range(100):
            file.write(b"a" * 1_000_000)
    done = in_little_memory(
        (
            "from kdkit.reading import numbered_lines, json_lines",
            f"assert all(one is None for _, one in json_lines({str(path)!r}))\n"
            "try:\n"
            f"    print(len(list(numbered_lines({str(path)!r}))))\n"
            "except UsageError as error:\n"
            "    print(error)\n",
        ),
        megabytes=100,
    )
    assert done.returncode == 0, done.stderr
    assert "line 2: expected at most 16777216 bytes" in done.stdout


def test_settings_of_millions_of_lists_are_refused_in_little_memory(tmp_path):
    (tmp_path / "config.json").write_text(f'{{"a": [{"[]," * 2**21}[]]}}')
    code = (
        "from kdkit.reporting import read_run",
        "try:\n"
        f"    read_run({str(tmp_path)!r})\n"
        "except UsageError as error:\n"
        "    print(error)\n",
    )
    done = in_little_memory(code, megabytes=100)
    assert "expected at most 4194304 bytes" in done.stdout, done.stderr
    with pytest.raises(UsageError, match="expected at most 4194304 bytes"):
        read_config(tmp_path)


def test_a_line_of_the_longest_length_is_read(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a" * (MAX_LINE_BYTES - 1) + b"\n")
    ((number, line),) = numbered_lines(path)
    assert (number, len(line)) == (1, MAX_LINE_BYTES - 1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"one\ntwo\0\n", "line 2: expected text in UTF-8. .*zero byte"),
        (b"one\nt\xffo\n", "line 2: expected UTF-8. .*byte 0xff, number 2"),
        ("one\n".encode("utf-16"), "line 1: expected text in UTF-8"),
    ],
)
def test_what_is_no_text_is_told_with_its_line(content, problem, tmp_path):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        read_lines(tmp_path / "text", "rows")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ', "[1]", '{"a": ' * 5000 + "1" + "}" * 5000,
        '{"a": "\\ud800"}', '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 120 + "]" * 120 + "}",
    ],
    ids=["cut off", "a list", "deep", "half a sign", "digits", "too deep"],
)  # fmt: skip
def test_json_that_cannot_be_used_is_refused_shortly(text, tmp_path):
    with pytest.raises(UsageError, match="expected a JSON object"):
        parse_json(text)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"a.json is damaged") as told:
        read_json(tmp_path / "a.json", "a config")
    assert len(str(told.value)) < 1000


def test_lines_of_a_log_that_are_no_objects_are_passed_over(tmp_path):
    (tmp_path / "log").write_bytes(b'{"a": 1}\n\n\0\0{\n[]\n\xff\n{"b": 2}')
    assert list(json_lines(tmp_path / "log")) == [
        (1, {"a": 1}), (3, None), (4, None), (5, None), (6, {"b": 2}),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["1e999", "nan", "-inf", "1e39", "x" * 10**6])
def test_scores_that_32_bits_do_not_hold_are_refused(text):
    with pytest.raises(UsageError, match="of 32 bits") as told:
        label_parser(None)(text)
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    "text", ["1000000 10000000\na 1 2\n", "a 1e999 1\n", "a nan 1\n", "a x 1\n"]
)
def test_word_vectors_take_no_memory_for_what_is_not_there(text, tmp_path):
    (tmp_path / "glove.txt").write_text(text)
    with pytest.raises(UsageError, match="line [12]: expected a word and"):
        read_word_vectors(tmp_path / "glove.txt", ["a"] + list("bcdefgh"))


@pytest.mark.parametrize("number", ["9" * 5000, str(2**40), "-1", "²"])
def test_rows_of_copies_beyond_the_task_are_refused(number, tmp_path):
    (tmp_path / "copies.tsv").write_text(f"source_row\ttext\n{number}\ta\n")
    with pytest.raises(UsageError, match="line 2: expected"):
        list(read_copies(tmp_path / "copies.tsv", 1, 10))


@pytest.mark.parametrize("value", ["1e999", "NaN", "9" * 400, "9" * 5000])
def test_settings_are_numbers_of_64_bits(value):
    settings = DataSettings("sst2", None, 8)
    with pytest.raises(UsageError, match="Wrong type for 'max_train_rows'"):
        override(settings, [f"max_train_rows={value}"])


def test_what_is_printed_of_strangers_does_not_move_the_cursor():
    assert (
        printable(EVIL) == "<script>alert(1)</script>\\x1b]0;owned\\x07$\\frac{"
    )
    assert printable("größer\n\tals") == "größer\n\tals"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_a_model_wrote_is_shown_or_passed_on(
    is_terminal, monkeypatch, capsys
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    show("a\xa0title \x1b]0;owned\x07")
    shown = "\\x1b]0;owned\\x07" if is_terminal else "\x1b]0;owned\x07"
    assert capsys.readouterr().out == f"a\xa0title {shown}\n"


def evil_run(folder):
    run = folder / EVIL.replace("/", "|")
    run.mkdir()
    config = {
        "verb": "distill", "recipe": EVIL, "seed": 1,
        "data": {"task": EVIL},
        "provenance": {"command": EVIL, "versions": {EVIL: EVIL}},
    }  # fmt: skip
    where = {"arm": "student", "stage": EVIL, "epoch": 1}
    events = [
        {"event": "model", "arm": "student", "name": EVIL, "parameters": 1},
        {"event": "epoch", **where, "seconds": 1.0, "logs": {EVIL: 1.0}},
        {"event": "evaluation", **where, "split": "dev", "metrics": {EVIL: 1}},
        {"event": "evaluation", **where, "split": EVIL, "metrics": {EVIL: 1}},
        {"event": "export", "arm": "student", "file": EVIL, "format": EVIL,
         "precision": EVIL, "size_bytes": 1},
        {"event": "measurement", "arm": "student", "corpus": [EVIL],
         "metrics": {"perplexity": 2.0}},
    ]  # fmt: skip
    (run / "config.json").write_text(json.dumps(config))
    (run / "metrics.jsonl").write_text(
        "\n".join(json.dumps({"time": 1.0, **event}) for event in events)
    )
    return run


def test_names_in_a_report_are_no_code(tmp_path, capsys):
    records = read_run(evil_run(tmp_path))
    page = render_report(records)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    print_report(records)
    printed = capsys.readouterr().out
    assert "\x1b]0;" not in page + printed
    assert "\x07" not in page + printed


@pytest.mark.parametrize(
    "event",
    [
        {"event": "epoch", "time": 1.0},
        {"event": "epoch", "time": 1e300, "arm": "a", "stage": "b", "epoch": 1},
        {"event": "evaluation", "time": 1.0, "arm": ["student"]},
        {"event": "run_finished", "time": 1.0, "best": 3, "seconds": 1},
        {"event": "latency", "time": 1.0, "file": 3},
        {"event": "inputs", "time": True},
        {"event": "inputs", "time": 1, "epoch": 10**30},
        {"event": "run_finished", "time": 1, "best": {}},
        *(
            {"event": "run_finished", "time": 1, "seconds": 1, "best": best}
            for best in (
                {"student": "x"},
                {"student": {"metrics": "x"}},
                {"student": {"averaged_epochs": [1, 2], "metrics": {}}},
            )
        ),
        {"event": "evaluation", "time": 1, "arm": "student", "split": "dev",
         "epoch": 1, "metrics": {"accuracy": 0.5}},
        *({"event": "epoch", "time": 1, "stage": "a", "epoch": 1, "seconds": 1,
           "logs": {"loss": 1.0}, **other}
          for other in ({"arm": "=1+1"}, {"arm": None}, {"arm": "student",
                        "stage": None}, {"arm": "student", "epoch": -1})),
        {"event": "stage_finished", "time": 1, "arm": "student", "stage": "a",
         "seconds": float("inf")},
        {"event": "export", "time": 1, "arm": "student", "file": "a",
         "format": "litert", "precision": "fp32", "size_bytes": 0},
        {"event": "doctor", "time": 1, "findings": ["x"]},
    ],
)  # fmt: skip
def test_an_event_with_other_fields_is_left_out(event, tmp_path):
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(event)}\n")
    records = read_run(tmp_path)
    assert records.events == ()
    assert "left out" in records.remarks[0]
    render_report(records)


def test_numbers_that_cannot_be_shown_are_no_metrics(tmp_path):
    """Nor is there a picture of a student that has no other."""
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    where = {"event": "evaluation", "time": 1, "stage": None, "split": "dev"}
    measured = {"teacher": {"accuracy": 5.0}, "student": {"accuracy": 1e308}}
    lines = [
        json.dumps({**where, "arm": arm, "examples": 1, "metrics": metrics})
        for arm, metrics in measured.items()
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    records = read_run(tmp_path)
    render_report(records)
    assert "accuracy" in markdown_results([records])
    with pytest.raises(UsageError, match="A trade-off is between runs"):
        plot_trade_off([[records]])


def test_models_of_no_size_have_no_trade_off(tmp_path):
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"event": "evaluation", "time": 1, "arm": "student",
                    "split": "dev", "metrics": {"accuracy": 0.5}})
    )  # fmt: skip
    with pytest.raises(UsageError, match="logs have neither"):
        plot_trade_off([[read_run(tmp_path)]])


@pytest.mark.parametrize(
    "settings",
    [{"cache": "x"}, {"provenance": {"command": [[]]}}, {"seed": 1 << 64}],
)
def test_settings_of_other_types_are_refused(settings, tmp_path):
    config = json.dumps({"verb": "distill", **settings})
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UsageError, match="damaged or something else"):
        read_run(tmp_path)


def test_names_that_are_too_long_are_no_files(tmp_path):
    config = json.dumps({"verb": "distill", "teacher": "0" * 5000})
    (tmp_path / "config.json").write_text(config)
    assert read_run(tmp_path).teacher_run is None
    assert "a shorter name" in describe("0" * 5000, errno.ENAMETOOLONG)


@pytest.mark.parametrize(
    "file", ["../victim", "/etc/passwd", "a/b.arrow", ".arrow", None]
)
def test_a_cache_touches_no_file_outside(file, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    cache = tmp_path / "cache"
    cache.mkdir()
    shard = {"file": file, "rows": 1, "entries": [], "bytes": 1, "sha256": ""}
    index = {
        "fingerprint": {"format": 2, "teacher": "a"},
        "entries": {},
        "shards": [shard],
    }
    (cache / "index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="no name of a file of a cache"):
        Index(cache, {"teacher": "a"}).drop_damaged()
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "name", [".lock", "metrics.jsonl", "checkpoints", "student/labels.json"]
)
def test_a_run_with_links_to_elsewhere_is_left_alone(name, tmp_path, capsys):
    """By them going on, or noting an export, would change a user's files."""
    settings, run = {"seed": 0}, tmp_path / "run"
    with open_run(run, settings) as made:
        made.write_config(settings, {})
        made.log("inputs", digests={})
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(victim)
    with (
        pytest.raises((UsageError, RunError), match=r" link"),
        open_run(run, settings),
    ):
        pass
    assert main(["evaluate", str(run)]) == 2
    assert "outside of" in capsys.readouterr().err
    assert victim.read_text() == "precious"


def test_logs_and_locks_are_not_written_through_links(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "metrics.jsonl").symlink_to(victim)
    (tmp_path / ".index.lock").symlink_to(victim)
    with pytest.raises(RunError, match=r"metrics.jsonl cannot .*a link"):
        RunDirectory(tmp_path).log("inputs", digests={})
    with pytest.raises(RunError, match=r"index.lock cannot .*a link"):
        Index(tmp_path, {"teacher": "a"}).note("agreement", {})
    assert victim.read_text() == "precious"


def test_links_within_a_directory_and_in_a_circle_are_no_harm(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "within").symlink_to("folder")
    (tmp_path / "circle").symlink_to("circle")
    check_links(tmp_path)
    check_links(tmp_path / "nowhere")
    (tmp_path / "folder" / "out").symlink_to("../..")
    with pytest.raises(UsageError, match=r"out is a link to .*outside"):
        check_links(tmp_path)
    check_links(tmp_path, tmp_path.parent)


def test_a_pipe_in_a_directory_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "assets").mkdir()
    pipe = tmp_path / "assets" / "vocabulary.txt"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        check_links(tmp_path)
    pipe.rename(tmp_path.parent / "pipe")
    pipe.symlink_to(tmp_path.parent / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        check_links(tmp_path, tmp_path.parent)
    pipe.unlink()
    (tmp_path.parent / "pipe").unlink()
    check_links(tmp_path)


NAMES = {
    "long": "a" * 5000,
    "of many parts": "/".join("b" * 3000),
    "with a zero byte": "a\0b",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_no_file_can_have_is_one_line(name, capsys):
    for arguments in (
        ["report", name],
        ["export", name],
        ["generate", name, "--prompt", "a"],
        ["evaluate", name, "--task", "sst2"],
    ):
        assert main(arguments) in (1, 2)
        assert capsys.readouterr().err.count("\n") == 1
    for read in (
        lambda: read_json(name, "settings"),
        lambda: list(numbered_lines(name)),
        lambda: list(json_lines(name)),
    ):
        with pytest.raises(UsageError, match="Cannot read"):
            read()


def test_what_the_system_says_of_a_file_is_one_line(monkeypatch, capsys):
    def run(options):
        pathlib.Path("nowhere").read_text()

    monkeypatch.setattr("kdkit.cli.report.run", run)
    assert main(["report", "run"]) == 1
    said = capsys.readouterr().err
    assert "nowhere cannot be written or read: No such file" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_teacher_whose_name_no_file_can_have_is_no_run(name, tmp_path):
    run = evil_run(tmp_path)
    for teacher in (name, f"{run}/{name}"):
        config = {"verb": "distill", "teacher": teacher}
        (run / "config.json").write_text(json.dumps(config))
        assert read_run(run).teacher_run is None
