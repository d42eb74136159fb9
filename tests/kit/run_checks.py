"""What is compared of a run: batches, logged numbers, weights, outputs."""

import json

import numpy as np

from kit import adapter
from kit import goldens as comparing_goldens
from kit.runs import RUNS

EMBEDDED = ("a man runs on the grass", "the film was not bad .", "nam owt")
PRECISIONS = ("fp32", "fp16", "int8")
# A run and its files' options, the same wherever these files are used.
ENCODER_FILES = ("vanilla_kd", "--logits", "--precision", *PRECISIONS)
# Their gradient is 0: Adam follows its rounding. No output depends on them.
BIASES_OF_KEYS = 1e-3
# Fields of events that say when, how long, how large, or which file.
NOT_COMPUTED = ("time", "seconds", "memory", "bytes", "digest", "findings")


def check_run(workspace, name):
    """Compares all of a run with its golden."""
    run, made = RUNS[name], workspace.make(name)
    for part in run.models:
        key = name if part == "." else f"{name}/{part}"
        for number, event in enumerate(computed_events(made / part)):
            comparing_goldens.check(
                "events",
                f"{key} {number:02}",
                comparing_goldens.flat(event),
                run.tolerance,
            )
        check_model(key, run, made / part)
    batches = workspace.told(name)["batches"]
    if batches is not None:
        comparing_goldens.check(
            "batches", name, [" ".join(one) for one in batches]
        )


def computed_events(run):
    """The events of a run that have computed numbers, and only these.

    Not those that verbs note in a finished run.
    """
    found = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        numbers = {
            key: value
            for key, value in comparing_goldens.flat(event).items()
            if isinstance(value, int | float)
            and not any(word in key for word in NOT_COMPUTED)
        }
        if numbers:
            found.append({"event": event["event"], **numbers})
        if event["event"] == "run_finished":
            break
    return found


def check_model(key, run, path):
    """Compares a model's weights, in their order, and outputs."""
    model, weights = adapter.load(run.kind, path), []
    tolerances = []
    for weight in model.weights:
        is_free = "key/bias" in weight.path
        tolerances.append(BIASES_OF_KEYS if is_free else run.tolerance)
        weights.append(comparing_goldens.summary(weight))
    comparing_goldens.check("weights", key, weights, tolerances)
    if run.kind == "embedder":
        outputs = adapter.embeddings(path, EMBEDDED)
    else:
        outputs = model(fixed_inputs(model), training=False)
    comparing_goldens.check(
        "outputs", key, comparing_goldens.summary(outputs), run.tolerance
    )


def fixed_batch():
    """Inputs of an encoder: two rows, the second with padding."""
    rows, length = 2, 8
    ids = 5 + np.arange(rows * length, dtype="int32").reshape(rows, length) % 15
    mask = np.ones_like(ids)
    mask[1, -3:] = 0
    return {
        "token_ids": ids * mask,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": mask,
    }


def fixed_inputs(model):
    """The same for any model."""
    made = {
        **fixed_batch(),
        "mask_positions": np.array([[1, 3], [2, 4]], "int32"),
        "positions": np.arange(16, dtype="int32").reshape(2, 8) % 8,
    }
    return {
        name: made[name.removeprefix("encoder_").removeprefix("decoder_")]
        for name in model.input
    }


def file_of(folder, precision):
    """The one `.tflite` file of a precision."""
    (file,) = folder.glob(f"*{precision}.tflite")
    return file
