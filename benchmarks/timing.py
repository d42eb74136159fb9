"""Options, random data, timing in turns and the report of the benchmarks."""

import argparse
import json
import statistics
import time

import adapter
import numpy as np

import kdkit

# Quantiles of the lengths of SST-2's training rows.
SST2_LENGTHS = (4, 5, 6, 8, 9, 11, 14, 17, 22, 31)
# Sizes of all-MiniLM-L6-v2.
MINILM = {
    "num_layers": 6,
    "hidden_dim": 384,
    "num_heads": 12,
    "intermediate_dim": 1536,
    "vocabulary_size": 30522,
}


def parser(doc, cases, *options):
    """A parser of names of cases and of options with a text."""
    known = ", ".join(cases)

    def case(name):
        if name not in cases:
            raise argparse.ArgumentTypeError(f"{name} is none of {known}")
        return name

    made = argparse.ArgumentParser(description=doc.splitlines()[0])
    if cases:
        made.add_argument(
            "cases", nargs="*", type=case, metavar="CASE", help=known
        )
    for option in options:
        made.add_argument(option)
    return made


def random_batch(vocabulary_size, batch_size=8, sequence_length=128):
    """Full-length rows of random tokens with random labels."""
    rng = np.random.default_rng(0)
    shape = (batch_size, sequence_length)
    x = {
        "token_ids": rng.integers(0, vocabulary_size, shape, dtype="int32"),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.ones(shape, "int32"),
    }
    return x, rng.integers(0, 2, batch_size, dtype="int32")


def rows_like_sst2(count, vocabulary_size):
    """Rows of random tokens with SST-2's lengths and random labels."""
    rng = np.random.default_rng(0)
    lengths = rng.choice(SST2_LENGTHS, count).astype("int32")
    ids = rng.integers(0, vocabulary_size, lengths.sum(), dtype="int32")
    labels = rng.integers(0, 2, count, dtype="int32")
    return adapter.random_rows(lengths, ids, labels)


def in_turns(work, rounds=5):
    """Runs functions in turn, round by round, after two untimed rounds.

    Args:
        work: dict from name to function.
        rounds: int. Defaults to `5`.

    Returns:
        A dict from name to the seconds of each round.
    """
    kdkit.keep_freed_memory()  # as in the command line
    for run in work.values():  # compiles
        run()
        run()
    seconds = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds, over, under):
    """The median over rounds of a time over a sum of others."""
    rounds = zip(*(seconds[name] for name in under), strict=True)
    pairs = zip(seconds[over], map(sum, rounds), strict=True)
    return statistics.median(one / floor for one, floor in pairs)


def medians(seconds):
    """The medians of times in milliseconds."""
    return {
        name: round(1000 * statistics.median(times), 1)
        for name, times in seconds.items()
    }


def result(case, ratio, goal, is_met, **more):
    """Prints and returns the result of a case."""
    found = {"case": case, "ratio": round(ratio, 3), "goal": round(goal, 3)}
    found |= {"is_met": bool(is_met), **more}
    print(found, flush=True)
    return found


def finish(benchmark, results, **more):
    """Prints the JSON object of a benchmark, and returns its exit status."""
    print(json.dumps({"benchmark": benchmark, **more, "results": results}))
    return 0 if all(result["is_met"] for result in results) else 1
