"""What the fields of events and of a run's settings may be.

A log may be damaged, of another version, or made by somebody else. What is read
of it is looked at once, here, so that what shows it need not.
"""

import math

NUMBER = (int, float)
OPTIONAL = type(None)
LATEST = 253_402_300_799  # seconds; the end of the year 9999
LARGEST_INT = (1 << 63) - 1

FIELDS = {
    "event": (str,),
    "time": NUMBER,
    "arm": (str, OPTIONAL),
    "stage": (str, OPTIONAL),
    "epoch": (int, OPTIONAL),
    "step": (int,),
    "seconds": NUMBER,
    "logs": (dict,),
    "split": (str,),
    "examples": (int, OPTIONAL),
    "metrics": (dict, OPTIONAL),
    "agreement": (dict, OPTIONAL),
    "best": (dict,),
    "digests": (dict,),
    "findings": (list,),
    "file": (str,),
    "format": (str,),
    "precision": (str,),
    "size_bytes": (int,),
    "sequence_length": (int, OPTIONAL),
    "max_abs_difference": (*NUMBER, OPTIONAL),
    "same_top_class": (*NUMBER, OPTIONAL),
    "median_ms": NUMBER,
    "p95_ms": NUMBER,
    "threads": (int,),
    "batch_size": (int,),
    "runs": (int, OPTIONAL),
    "name": (str, OPTIONAL),
    "parameters": (int, OPTIONAL),
    "num_layers": (int, OPTIONAL),
    "hidden_dim": (int, OPTIONAL),
    "num_heads": (int, OPTIONAL),
    "intermediate_dim": (int, OPTIONAL),
    "task": (str, OPTIONAL),
    "column": (str, OPTIONAL),
    "detokenizer": (str, OPTIONAL),
    "stride": (int, OPTIONAL),
    "signatures": (dict, OPTIONAL),
    "beam_size": (int, OPTIONAL),
    "length_penalty": (*NUMBER, OPTIONAL),
    "held_out_every": (int, OPTIONAL),
    "rows": (int,),
    "dropped": (int,),
    "per_labeled": NUMBER,
    "rows_of_epoch": (int,),
    "copies": (int,),
    "left_out": (int,),
}
LISTS_OF_TEXTS = ("corpus", "pairs", "languages", "compared_with")
NEEDED = {
    "doctor": ("findings",),
    "epoch": ("arm", "stage", "epoch", "seconds", "logs"),
    "evaluation": ("arm",),
    "export": ("arm", "file", "format", "precision", "size_bytes"),
    "latency": (
        "file", "threads", "batch_size", "sequence_length", "median_ms",
        "p95_ms",
    ),
    "inputs": ("digests",),
    "model": ("arm",),
    "stage_finished": ("arm", "stage", "seconds"),
    "unlabeled": ("rows", "dropped", "per_labeled", "compared_with"),
    "augmented": ("rows", "rows_of_epoch", "copies", "left_out"),
}  # fmt: skip
SETTINGS = {
    "verb": str,
    "recipe": str,
    "data": dict,
    "corpus": dict,
    "provenance": dict,
    "teacher": (str, dict),
    "seed": int,
    "teacher_weights": list,
}


def is_event(event: dict) -> bool:
    """Whether an object of a log is an event whose fields are as expected.

    Args:
        event: dict, as JSON has it.
    """
    if not isinstance(event.get("event"), str):
        return False
    if not 0 <= _number(event.get("time")) <= LATEST:
        return False
    if any(name not in event for name in NEEDED.get(event.get("event"), ())):
        return False
    return _has_numbers(event) and all(
        _fits(name, value) for name, value in event.items()
    )


def problem_of_settings(config: dict) -> str | None:
    """Returns what is wrong with a run's settings, as far as reports ask.

    Args:
        config: dict, as JSON has it.
    """
    if not _has_numbers(config):
        return "expected numbers of 64 bits"
    for name, kind in SETTINGS.items():
        value = config.get(name)
        if value is not None and not isinstance(value, kind):
            return f"expected another type of {name!r}"
    versions = (config.get("provenance") or {}).get("versions") or {}
    task = (config.get("data") or {}).get("task") or ""
    corpus = config.get("corpus") or {}
    languages = corpus.get("languages", None if "columns" in corpus else [])
    if not isinstance(versions, dict):
        return "expected an object as 'provenance.versions'"
    if not isinstance(task, str):
        return "expected a name as 'data.task'"
    if not _are_texts(languages):
        return "expected names as 'corpus.languages'"
    return None


def _fits(name, value):
    if name in LISTS_OF_TEXTS:
        return value is None or isinstance(value, str) or _are_texts(value)
    if name == "room":
        return value is None or _are_counts(value)
    kinds = FIELDS.get(name)
    if kinds is None or isinstance(value, bool):
        return kinds is None
    return isinstance(value, kinds)


def _are_texts(values):
    return isinstance(values, list) and all(
        isinstance(value, str) for value in values
    )


def _are_counts(values):
    return isinstance(values, list) and all(
        type(value) is int for value in values
    )


def _has_numbers(value):
    """Whether all whole numbers in a value have 64 bits."""
    if isinstance(value, dict):
        return all(map(_has_numbers, value.values()))
    if isinstance(value, list):
        return all(map(_has_numbers, value))
    return not isinstance(value, int) or abs(value) <= LARGEST_INT


def _number(value):
    """A finite number as it is, and anything else as -1."""
    is_number = isinstance(value, NUMBER) and not isinstance(value, bool)
    return value if is_number and _is_finite(value) else -1


def _is_finite(value):
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
