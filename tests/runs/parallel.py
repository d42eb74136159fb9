"""Small parallel files, and the settings to pretrain on their sides."""

import dataclasses

from helpers import ENGLISH
from helpers import GERMAN

from kdkit.recipes import pretraining
from kdkit.training import MassSettings
from kdkit.training import ModelSettings
from kdkit.training import PretrainSettings
from kdkit.training import SentenceSettings

# More positions than there are tokens to learn from.
SIZES = MassSettings(1, 1, 8, 2, 12, max_sequence_length=40, dropout=0.0)


def write_parallel(folder):
    """Writes the files, in English and German."""
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
