"""Small parallel files, and settings and commands to train on them."""

import dataclasses

from kdkit.recipes import pretraining
from kdkit.training import (
    MassSettings,
    ModelSettings,
    PretrainSettings,
    SentenceSettings,
)
from kit.helpers import ENGLISH, GERMAN

# More positions than there are tokens to learn from.
SIZES = MassSettings(1, 1, 8, 2, 12, max_sequence_length=40, dropout=0.0)


def write_parallel(folder):
    """Writes the files, in English and German."""
    folder.mkdir(parents=True, exist_ok=True)
    for language, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"train.{language}").write_text("\n".join(4 * lines))
        (folder / f"dev.{language}").write_text("\n".join(lines))


def of_sentences(text, **changes):
    """Settings of a run on the sentences of both sides."""
    (stage,) = pretraining.FROM_SCRATCH
    return PretrainSettings(
        **{
            "corpus": SentenceSettings(
                (str(text / "train.en"), str(text / "train.de")),
                languages=("en", "de"),
                sequence_length=32,
                held_out_every=8,
            ),
            "model": ModelSettings(mass=SIZES),
            "stages": (
                dataclasses.replace(stage, epochs=2, learning_rate=1e-2),
            ),
            "vocabulary_size": 300,
            "jit_compile": False,
            **changes,
        }
    )


def flags(text, option, part):
    """An option and the files of a part, one for each language."""
    return [option, str(text / f"{part}.en"), str(text / f"{part}.de")]


def translation(text, pretrained, path):
    """The words of a command that distils on pairs, from the model itself."""
    return [
        *("pretrain", "--recipe", "lightpaff", "--teacher", str(pretrained)),
        *("--model", str(pretrained), "--languages", "en", "de"),
        *flags(text, "--pairs", "train"),
        *flags(text, "--held-out", "dev"),
        *("--set", "stages.0.epochs=2", "--set", "stages.0.batch_tokens=64"),
        *("--set", "corpus.sequence_length=32", "--set", "jit_compile=false"),
        *("--run-dir", str(path)),
    ]
