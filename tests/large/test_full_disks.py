"""Commands on a disk that fills up: one line of error, then resuming."""

import os

import pytest
import safetensors
from kit import failing_disks
from kit.adapter import command
from kit.runs import COMMANDS, RUNS

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("quick_runs")]

# Each more than the one before; the last is enough for every verb.
KILOBYTES = (2, 64, 300, 900, 2_500, 6_000, 60_000)
FULL = "No space left on device", "ruined: disk", "are free"
NEEDED = ("pretrained", "spans_and_pairs")
# The last word is where the command writes, under a name on the disk.
WORDS = {
    "train-teacher": ("--smoke", "--run-dir", "run"),
    "distill": ("tinybert", "--smoke", "--run-dir", "run"),
    "pretrain": (*RUNS["pretrained"].words[1:], "--run-dir", "run"),
    "cache": (*COMMANDS["cache_verb"].words[1:-1], "cache"),
    "augment": (*COMMANDS["augment_verb"].words[1:-1], "copies.tsv"),
    "export": ("COPY", "--precision", "fp32", "--output", "exports"),
    "generate": (
        *("@spans_and_pairs", "--input", "@lines.en", "--max-tokens", "16"),
        *("--output", "written.txt"),
    ),
}


@pytest.mark.parametrize("verb", WORDS)
def test_a_verb_says_one_line_and_goes_on_when_there_is_room(
    verb, workspace, tmp_path
):
    for name in NEEDED:
        workspace.make(name)
    copy = workspace.copy("vanilla_kd", tmp_path / "copy")

    def run(folder):
        *words, place = WORDS[verb]
        words = [copy if word == "COPY" else word for word in words]
        return command(workspace.words([verb, *words, folder / place]))

    failed = []
    with failing_disks.small_disk(tmp_path / "disk", 80) as disk:
        for kilobytes in KILOBYTES:
            leave(disk, kilobytes * 1000)
            answer = run(disk)
            (disk / "filler").unlink()
            assert not unwhole(disk)
            if answer.status == 0:
                break
            assert answer.status == 1, answer.err
            failed.append(kilobytes)
            last = answer.err.strip().splitlines()[-1]
            assert last.startswith(f"kdkit {verb}: ")
            assert any(words in last for words in FULL), last
            assert "Traceback" not in answer.err
        assert answer.status == 0
        assert failed
        on_disk = contents(disk)
    clean = tmp_path / "clean"
    clean.mkdir()
    assert run(clean).status == 0
    assert on_disk == contents(clean)


def leave(folder, num_bytes):
    """Fills a file system up to some bytes."""
    free = os.statvfs(folder)
    with open(folder / "filler", "wb") as file:
        file.write(b"\0" * max(free.f_bavail * free.f_bsize - num_bytes, 0))


def unwhole(folder):
    """Models and files under their final names that cannot be read."""
    damaged = []
    for path in folder.rglob("*.safetensors"):
        safetensors.safe_open(path, "np")  # fails if it is not whole
    for path in folder.rglob("*.weights.h5"):
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
        is_text = path.suffix in (".tsv", ".txt")
        kept[name] = path.read_bytes() if is_text else None
    return kept
