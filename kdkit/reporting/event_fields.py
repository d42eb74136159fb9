"""What the fields of events and of a run's settings may be.

A log may be damaged, of another version, or made by somebody else. What is read
of it is looked at once, here, so that what shows it need not.
"""

ARMS = ("teacher", "control", "student")
# What a run on text calls the model that it trains.
LANGUAGE_MODELS = ("encoder", "decoder", "encoder_decoder")

NUMBER = (int, float)
OPTIONAL = type(None)
LATEST = 253_402_300_799  # seconds; the end of the year 9999
LARGEST_INT = (1 << 63) - 1
# Of what is shown, such that ratios and pictures of it are, too.
SMALLEST, LARGEST = 1e-9, 1e100
LARGEST_COUNT = 1 << 53  # which floats have, too

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
    "collapsed": (str, OPTIONAL),
    "digests": (dict,),
    "data_digest": (str,),
    "rows_digest": (str,),
    "file": (str,),
    "format": (str,),
    "title": (str, OPTIONAL),
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
    "masking": (dict, OPTIONAL),
    "spans": (dict, OPTIONAL),
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
DIVISORS = ("size_bytes", "median_ms")
# The losses of an epoch from which the teacher's entropy is subtracted. Logs of
# kdkit 0.1 have no such field: their losses contain it.
LESS_ENTROPY = "less_teacher_entropy"
LISTS_OF_TEXTS = (
    "corpus",
    "pairs",
    "languages",
    "compared_with",
    LESS_ENTROPY,
    "untrained_layers",
)
NEEDED = {
    "doctor": ("findings",),
    "epoch": ("arm", "stage", "epoch", "seconds", "logs"),
    "evaluation": ("arm", "split"),
    "export": ("arm", "file", "format", "precision", "size_bytes"),
    "latency": (
        "file", "threads", "batch_size", "sequence_length", "median_ms",
        "p95_ms",
    ),
    "inputs": ("digests",),
    "model": ("arm",),
    "run_finished": ("seconds", "best"),
    "stage_finished": ("arm", "stage", "seconds"),
    "unlabeled": ("rows", "dropped", "per_labeled", "compared_with"),
    "augmented": ("rows", "rows_of_epoch", "copies", "left_out"),
}  # fmt: skip
# Of these, what is more than there.
NOT_NULL = {
    "epoch": ("arm", "stage", "epoch"),
    "stage_finished": ("arm", "stage"),
    "unlabeled": ("compared_with",),
}
SETTINGS = {
    "verb": str,
    "recipe": str,
    "data": dict,
    "corpus": dict,
    "cache": dict,
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
    kind = event.get("event")
    return (
        isinstance(kind, str)
        and type(event.get("time")) in NUMBER
        and 0 <= event["time"] <= LATEST
        and all(name in event for name in NEEDED.get(kind, ()))
        and all(event[name] is not None for name in NOT_NULL.get(kind, ()))
        and (kind != "epoch" or event["arm"] in ARMS + LANGUAGE_MODELS)
        and _is_placed(event)
        and _has_numbers(event)
        and all(_fits(name, value) for name, value in event.items())
    )


def _is_placed(event):
    """Whether an epoch that is named is one of a stage."""
    return event.get("epoch") is None or event.get("stage") is not None


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
    provenance = config.get("provenance") or {}
    versions = provenance.get("versions") or {}
    task = (config.get("data") or {}).get("task") or ""
    corpus = config.get("corpus") or {}
    languages = corpus.get("languages", None if "columns" in corpus else [])
    if not isinstance(versions, dict):
        return "expected an object as 'provenance.versions'"
    for name in ("command", "commit", "machine"):
        if not isinstance(provenance.get(name), str | OPTIONAL):
            return f"expected a text as 'provenance.{name}'"
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
    if name == "best":
        return isinstance(value, dict) and all(map(_is_best, value.values()))
    if name == "findings":
        return isinstance(value, list) and all(map(_is_finding, value))
    kinds = FIELDS.get(name)
    if kinds is None:
        return True
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    if not isinstance(value, NUMBER):
        return True
    if isinstance(value, int):
        return (name in DIVISORS) <= value <= LARGEST_COUNT
    return (SMALLEST if name in DIVISORS else -LARGEST) <= value <= LARGEST


def _is_best(value):
    """Whether a value is what is said of the best epoch of an arm."""
    if not isinstance(value, dict):
        return False
    averaged = value.get("averaged_epochs")
    if averaged is not None and not _are_counts(averaged):
        return False
    return (
        _is_placed(value)
        and not (averaged and value.get("stage") is None)
        and all(_fits(name, entry) for name, entry in value.items())
    )


def _is_finding(value):
    """Whether a value is what a check before the run found."""
    return isinstance(value, dict) and _are_texts(
        [value.get("check"), value.get("outcome")]
    )


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
