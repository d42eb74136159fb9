"""Small parallel files, and settings to train on them."""

from kdkit.recipes import Stage
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
    stage = Stage(
        name="pretraining",
        data="corpus",
        epochs=2,
        learning_rate=1e-2,
        warmup_fraction=0.05,
        hard_label_weight=1.0,
    )
    return PretrainSettings(
        **{
            "corpus": SentenceSettings(
                (str(text / "train.en"), str(text / "train.de")),
                languages=("en", "de"),
                sequence_length=32,
                held_out_every=8,
            ),
            "model": ModelSettings(mass=SIZES),
            "stages": (stage,),
            "vocabulary_size": 300,
            "jit_compile": False,
            **changes,
        }
    )


def flags(text, option, part):
    """An option and the files of a part, one for each language."""
    return [option, str(text / f"{part}.en"), str(text / f"{part}.de")]
