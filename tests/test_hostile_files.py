"""Files of strangers: bounded memory, a clear line, nothing outside touched."""

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import keras
import keras_hub
import numpy as np
import pytest
from helpers import bert

from kdkit.data.copies import read_copies
from kdkit.data.labels import label_parser
from kdkit.data.problems import read_lines
from kdkit.data.word_vectors import read_word_vectors
from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.export import metadata
from kdkit.models import load_classifier
from kdkit.models import load_encoder
from kdkit.models import load_tokenizer
from kdkit.models.saving import save_preset
from kdkit.reading import MAX_LINE_BYTES
from kdkit.reading import json_lines
from kdkit.reading import numbered_lines
from kdkit.reading import parse_json
from kdkit.reading import read_json
from kdkit.reporting import read_run
from kdkit.reporting.html import render_report
from kdkit.reporting.terminal import print_report
from kdkit.settings import override
from kdkit.teacher_cache.index import Index
from kdkit.training.run_settings import DataSettings

ROOT = pathlib.Path(__file__).parent.parent
EVIL = "<script>alert(1)</script>\x1b]0;owned\x07$\\frac{"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s"]


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
    ],
)
def test_an_event_with_other_fields_is_left_out(event, tmp_path):
    (tmp_path / "config.json").write_text('{"verb": "distill"}')
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(event)}\n")
    records = read_run(tmp_path)
    assert records.events == ()
    assert "left out" in records.remarks[0]
    render_report(records)


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


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset of a tiny classifier with its tokenizer."""
    path = tmp_path_factory.mktemp("presets") / "preset"
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    save_preset(bert(num_layers=1), tokenizer, path, 6)
    return path


@pytest.fixture
def copy(preset, tmp_path):
    """A copy of it to do harm to."""
    target = tmp_path / "preset"
    subprocess.run(["cp", "-r", str(preset), str(target)], check=True)
    return target


def change(file, **fields):
    config = json.loads(file.read_text())
    config.update(fields)
    file.write_text(json.dumps(config))


def test_a_preset_as_it_was_saved_is_loaded(copy):
    assert load_classifier(copy, 3).tokenizer is not None


CODE = {"class_name": "__lambda__", "config": {"value": "4wEAAAA="}}
LAYER = {"module": "os", "class_name": "system", "config": {"command": "ls"}}
HOSTILE = {
    "a class of another package": {
        "module": "os", "class_name": "system", "registered_name": "system",
    },
    "a layer of another package": {"config": {"dtype": LAYER}},
    "a lambda": {"config": {"activation": CODE}},
    "a Lambda layer": {"module": "keras.layers", "class_name": "Lambda"},
    "a SavedModel as a layer": {
        "module": "keras.layers", "class_name": "TFSMLayer",
        "config": {"filepath": "/tmp/evil"},
    },
    "a vocabulary elsewhere": {
        "class_name": "BertTokenizer", "config": {"vocabulary": "/etc/passwd"},
    },
    "a billion layers": {"config": {"num_layers": 10**9}},
    "a billion words": {
        "config": {"vocabulary_size": 10**9, "hidden_dim": 1024}
    },
    "an endless width": {"config": {"hidden_dim": 10**12}},
}  # fmt: skip


@pytest.mark.parametrize("file", ["config.json", "task.json", "tokenizer.json"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_config_is_refused_before_it_is_loaded(what, file, copy):
    change(copy / file, **HOSTILE[what])
    for load in (lambda path: load_classifier(path, 3), load_encoder):
        with pytest.raises(UsageError, match=f"{file} is refused"):
            load(copy)
    with pytest.raises(UsageError, match=f"{file} is refused"):
        load_tokenizer(copy)


def test_files_outside_of_a_preset_are_refused(copy, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("\n".join(PIECES))
    vocabulary = copy / "assets" / "tokenizer" / "vocabulary.txt"
    vocabulary.unlink()
    vocabulary.symlink_to(secret)
    with pytest.raises(UsageError, match="link to .*outside"):
        load_tokenizer(copy)
    vocabulary.unlink()
    vocabulary.write_text(secret.read_text())
    (copy / "model.weights.h5").unlink()
    for name in ("../secret.txt", "/etc/passwd", "..", "a\\b", 3):
        index = {"metadata": {}, "weight_map": {"layers": name}}
        (copy / "model.weights.json").write_text(json.dumps(index))
        with pytest.raises(UsageError, match="no file of this directory"):
            load_classifier(copy, 3)


def test_a_download_of_links_to_its_own_blobs_is_loaded(copy):
    blobs = copy.parent / "hub" / "blobs"
    snapshot = copy.parent / "hub" / "snapshots" / "1"
    snapshot.parent.mkdir(parents=True)
    copy.rename(snapshot)
    blobs.mkdir()
    (snapshot / "model.weights.h5").rename(blobs / "0")
    (snapshot / "model.weights.h5").symlink_to("../../blobs/0")
    assert load_classifier(snapshot, 3).model is not None


@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
@pytest.mark.parametrize("damage", ["cut off", "other bytes", "empty"])
def test_damaged_weights_are_one_line(name, damage, copy):
    content = bytearray((copy / name).read_bytes())
    if damage == "cut off":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    else:
        content[:64] = b"\xff" * 64
    (copy / name).write_bytes(content)
    with pytest.raises(UsageError, match="cannot be loaded") as told:
        load_classifier(copy, 3)
    assert "\n" not in str(told.value)


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_links_in_weights_are_refused(copy, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(copy / "model.weights.h5", "r+") as file:
        found = []
        file.visit(found.append)
        place = next(one for one in found if one.endswith("vars/0"))
        shape = file[place].shape
        with h5py.File(tmp_path / "other.h5", "w") as other:
            other["secret"] = np.zeros(shape)
        del file[place]
        file[place] = h5py.ExternalLink(str(tmp_path / "other.h5"), "secret")
    with pytest.raises(UsageError, match="1 objects could not be loaded"):
        load_classifier(copy, 3)


def make_archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_archives_that_leave_their_place_or_grow_are_refused(tmp_path):
    path = tmp_path / "model.keras"
    cases = {
        "lies outside": ({"config.json": "{}", "../../x": "y"}, 0),
        "outside of it": ({"config.json": "{}", "/etc/x": "y"}, 0),
        "grows from": ({"config.json": "{}", "assets/a": b"\0" * 10**8}, 8),
        "no config.json": ({"a": "b"}, 0),
        "expected a JSON object": ({"config.json": "["}, 0),
        "code": ({"config.json": json.dumps(HOSTILE["a Lambda layer"])}, 0),
    }
    for problem, (members, compression) in cases.items():
        make_archive(path, members, compression)
        with pytest.raises(UsageError, match=problem):
            load_classifier(path, 2)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="is damaged or no model of Keras"):
        load_classifier(path, 2)


def test_a_saved_lambda_is_refused_in_a_keras_file(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: 2 * x)(inputs))
    model.save(tmp_path / "model.keras")
    with pytest.raises(UsageError, match="Lambda, which holds code"):
        load_classifier(tmp_path / "model.keras", 2)


def test_an_exported_file_that_was_changed_is_named(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"TFL3" * 1000)
    entry = metadata.Metadata("fp32", 1, None, "0")
    metadata.attach(path, entry)
    found = metadata.read(path)
    assert (found.precision, found.size) == ("fp32", 4000)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(UsageError, match="another content than was written"):
        metadata.read(path)
    bomb = {metadata.ENTRY: b" " * 10**7}
    make_archive(path, bomb, zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="an entry of 10000000 bytes"):
        metadata.read(path)
