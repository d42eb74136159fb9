"""What helps where a saved model is damaged: a copy, or its run once more."""

import pathlib
import shlex

from kdkit.errors import UsageError
from kdkit.reading import read_json

CONFIG = "config.json"
PROVENANCE = "provenance"  # in the config of a run, and of no model
VERBS = ("distill", "pretrain", "train-teacher")
TOKENIZER = "tokenizer"  # of a run on text beside its model, which has it too
WITH_TOKENIZERS = ("encoder", "decoder", "encoder_decoder")
FINAL_WEIGHTS = "checkpoints/{arm}/*/final.weights.h5"


def way_to_restore(place: pathlib.Path) -> str:
    """Returns what to do about a saved model that is damaged or gone.

    Args:
        place: `pathlib.Path` of the directory or `.keras` file of the model,
            or of the directory of its tokenizer.
    """
    run = place.absolute().parent
    verb = verb_of_run(run)
    if verb is None:
        return "Restore it from a copy, or make the model again."
    if place.name == TOKENIZER:
        if any((run / name).is_dir() for name in WITH_TOKENIZERS):
            return f"Remove {place}: the model in {run} has it, too."
        how = "made again"
    elif any(run.glob(FINAL_WEIGHTS.format(arm=place.stem))):
        how = "made again from its checkpoints"
    else:
        how = "trained again, since its checkpoints are gone,"
    return (
        f"Restore it from a copy. Or remove {place}, and it is {how} by: "
        f"{command_again(run, verb)}"
    )


def command_again(run: pathlib.Path, verb: str) -> str:
    """Returns the command that goes on with a run.

    Args:
        run: `pathlib.Path` of its directory.
        verb: what `verb_of_run` returned.
    """
    words = ["kdkit", verb, "--config", str(run / CONFIG), "--run-dir"]
    return shlex.join([*words, str(run)])


def verb_of_run(directory: pathlib.Path) -> str | None:
    """Returns the verb that goes on with the run in a directory.

    Args:
        directory: `pathlib.Path`.

    Returns:
        A string; `None` where there is no run of kdkit, or no verb for it.
    """
    config = config_of_run(directory)
    verb = config.get("verb")
    if verb not in VERBS:
        return None
    return "distill" if config.get("steps_before") else verb


def config_of_run(directory: pathlib.Path) -> dict:
    """Returns the settings of the run in a directory; empty without one.

    Args:
        directory: `pathlib.Path`.
    """
    file = directory / CONFIG
    if not file.is_file():
        return {}
    try:
        config = read_json(file, "the config of a run or a model")
    except UsageError:  # told by what needs it
        return {}
    return config if PROVENANCE in config else {}
