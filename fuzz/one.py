"""Runs one reader on inputs that atheris makes up: `one.py READER SECONDS`.

Each input at which the reader breaks its word, at a place that is new, becomes
a file in the folder of finds. libFuzzer's last lines say how many inputs there
were.
"""

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import traceback

import atheris

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

with atheris.instrument_imports(include=["kdkit"]):
    import readers

MEMORY = 4096  # MB, with TensorFlow loaded


def main(name, seconds, finds):
    """Fuzzes a reader; does not return."""
    seeds = pathlib.Path(tempfile.mkdtemp(prefix="kdkit-fuzz-"))
    for number, seed in enumerate(readers.SEEDS[readers.READERS[name]]):
        (seeds / str(number)).write_bytes(seed)
    known = pathlib.Path(__file__).parents[1] / "tests" / "fuzz_finds" / name
    for path in known.glob("*"):
        shutil.copy(path, seeds)
    shared = pathlib.Path("/dev/shm")
    place = shared if shared.is_dir() else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kdkit-fuzz-", dir=place))
    finds.mkdir(parents=True, exist_ok=True)
    seen = set()

    def one(content):
        shutil.rmtree(folder)
        folder.mkdir()
        error = readers.breaks_its_word(name, content, folder)
        if error is None:
            return
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = (type(error).__name__, *((f.filename, f.lineno) for f in last))
        if where not in seen:
            seen.add(where)
            digest = hashlib.sha256(content).hexdigest()[:12]
            (finds / digest).write_bytes(content)
            print(f"FIND {name} {digest}", file=sys.stderr)
            traceback.print_exception(error, limit=-4)

    options = [
        f"-max_total_time={seconds}",
        "-max_len=8192",
        "-timeout=20",
        f"-rss_limit_mb={MEMORY}",
        "-print_final_stats=1",
        f"-artifact_prefix={finds}/stopped-",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]))
