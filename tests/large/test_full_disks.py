"""Commands on a disk that fills up: one line of error, then resuming."""

import shutil

import pytest
from kit import failing_disks
from kit.adapter import command
from kit.helpers import ENGLISH, decoder
from kit.parallel import of_sentences, write_parallel

from kdkit import models
from kdkit.training import pretrain

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("quick_runs")]

TEXT = ["black monday hit the new york stock exchange", "it was black"] * 40
# Each more than the one before; the last is enough for every verb.
KILOBYTES = (2, 64, 300, 900, 2_500, 6_000, 60_000)
ONE_EPOCH = [
    *("--set", "stages.0.epochs=1", "--set", "stages.0.batch_size=16"),
    *("--set", "jit_compile=false"),
]


@pytest.fixture(scope="module")
def inputs(finished_run, tmp_path_factory):
    """A run, a corpus, a decoder and a masked-language model."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "corpus.txt").write_text("\n".join(TEXT))
    pairs = models.train_byte_pairs(TEXT, 270)
    small = decoder(1, vocabulary_size=270, max_sequence_length=24)
    models.save_language_model(small, pairs, folder / "decoder", 24)
    # An encoder-decoder, and lines for it that fill some blocks.
    write_parallel(folder)
    pretrain(of_sentences(folder), folder / "translator")
    (folder / "lines.en").write_text("\n".join(200 * ENGLISH))
    shutil.copytree(finished_run, folder / "run")
    encoder = [
        "pretrain", "--corpus", str(folder / "corpus.txt"), *ONE_EPOCH,
        "--model", str(finished_run / "teacher_run" / "teacher"),
        "--set", "corpus.sequence_length=16",
        "--run-dir", str(folder / "encoder"),
    ]  # fmt: skip
    assert command(encoder).status == 0
    return folder


def commands(inputs, disk):
    """What is run, by verb; paths on the disk are where it writes."""
    return {
        "train-teacher": ["--smoke", "--run-dir", f"{disk}/run"],
        "distill": ["tinybert", "--smoke", "--run-dir", f"{disk}/run"],
        "pretrain": [
            *("--corpus", f"{inputs}/corpus.txt", *ONE_EPOCH),
            *("--model", f"{inputs}/decoder"),
            *("--set", "corpus.sequence_length=16"),
            *("--run-dir", f"{disk}/run"),
        ],
        "cache": [
            *("tinybert", "--task", "sentiment", "--cache", f"{disk}/cache"),
            *("--teacher", f"{inputs}/run/teacher_run"),
            *("--set", "data.max_train_rows=64"),
            *("--set", "data.sequence_length=32"),
            *("--set", "student.num_layers=1", "--set", "student.num_heads=4"),
            *("--set", "student.hidden_dim=32"),
        ],
        "augment": [
            *("--task", "sentiment", "--model", f"{inputs}/encoder"),
            *("--output", f"{disk}/copies.tsv", "--copies", "1"),
        ],
        "export": [
            *(f"{inputs}/run", "--precision", "fp32"),
            *("--output", f"{disk}/exports"),
        ],
        "generate": [
            *(f"{inputs}/translator", "--languages", "en", "de"),
            *("--input", f"{inputs}/lines.en", "--max-tokens", "4"),
            *("--output", f"{disk}/written.de"),
        ],
    }


VERBS = tuple(commands(None, None))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_one_line_and_goes_on_when_there_is_room(
    verb, inputs, tmp_path
):
    failed = []
    with failing_disks.small_disk(tmp_path / "disk", 80) as disk:
        for kilobytes in KILOBYTES:
            failing_disks.leave(disk, kilobytes * 1000)
            answer = command([verb, *commands(inputs, disk)[verb]])
            (disk / "filler").unlink()
            assert not unwhole(disk)
            if answer.status == 0:
                break
            assert answer.status == 1, answer.err
            failed.append(kilobytes)
            last = answer.err.strip().splitlines()[-1]
            assert last.startswith(f"kdkit {verb}: ")
            full = "No space left on device", "ruined: disk", "are free"
            assert any(words in last for words in full), last
            assert "Traceback" not in answer.err
        assert answer.status == 0
        assert failed
        on_disk = contents(disk)
    clean = tmp_path / "clean"
    clean.mkdir()
    assert command([verb, *commands(inputs, clean)[verb]]).status == 0
    assert on_disk == contents(clean)


def unwhole(folder):
    """Models and files under their final names that cannot be read."""
    damaged = []
    for path in folder.rglob("*.weights.h5"):
        if path.name.startswith("unfinished"):
            continue
        with open(path, "rb") as file:
            if file.read(4) != b"\x89HDF":
                damaged.append(path)
    for path in folder.rglob("*.json"):
        if not path.read_text(encoding="utf-8").rstrip().endswith(("}", "]")):
            damaged.append(path)
    return damaged


def contents(folder):
    """Names of all that is kept, and the bytes of texts and rows."""
    kept = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name.endswith(".lock") or "tfevents" in name:
            continue
        if path.suffix == ".arrow":
            name = str(path.parent.relative_to(folder) / "*.arrow")
        is_text = path.suffix in (".tsv", ".txt", ".de")
        kept[name] = path.read_bytes() if is_text else None
    return kept
