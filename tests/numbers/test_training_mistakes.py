"""What would change a run's numbers in silence: a call, words of the error."""

import dataclasses

import keras
import numpy as np
import pytest

import kdkit
from kdkit import models, training
from kdkit.recipes import RECIPES, Stage
from kdkit.training import (
    AugmentSettings,
    CorpusSettings,
    DataSettings,
    ModelSettings,
    PretrainSettings,
    TeacherSettings,
    TextsSettings,
    TranslationsSettings,
    run_on_arrays,
)

STAGE = Stage("any", 1, 1e-3, hard_label_weight=1.0)
IN_PARTS = dataclasses.replace(STAGE, gradient_accumulation_steps=2)
SIZES = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 8,
    "max_sequence_length": 32,
}
FLOAT16 = {"dtype_policy": "mixed_float16"}


def run(data=None, stage=STAGE, **arguments):
    """The settings of a run that fine-tunes a model."""
    data = data or DataSettings("sentiment", None, 32)
    return TeacherSettings(data, ModelSettings(**SIZES), (stage,), **arguments)


def on_arrays(stage, loss=None):
    inputs = keras.Input((2,), name="x")
    student = keras.Model({"x": inputs}, keras.layers.Dense(1)(inputs))
    x = {"x": np.zeros((1, 2))}
    run_on_arrays([stage], None, student, x, np.zeros(1), loss=loss)


def long_sequences(path):
    training.train_teacher(run(DataSettings("sentiment", None, 64)), path)


def generated_words(path):
    folder = path / "SST-2"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("sentence\tlabel\na\t0\n")
    training.train_teacher(
        run(DataSettings("sst2", str(path), 32)), path / "run"
    )


def pretrain(path, corpus, stages, use):
    """Trains an encoder with the tokenizer or teacher of a saved one."""
    tokenizer = models.word_piece_tokenizer(
        kdkit.data.sentiment_vocabulary(), lowercase=True
    )
    sizes = SIZES | {"vocabulary_size": tokenizer.vocabulary_size()}
    loaded = models.LoadedModel(models.student(sizes), tokenizer)
    models.save_model(loaded, path / "encoder")
    saved = {use: str(path / "encoder")}
    settings = PretrainSettings(corpus, ModelSettings(**SIZES), stages, **saved)
    training.pretrain(settings, path / "run")


def a_document_for_an_encoder(path):
    corpus = CorpusSettings(
        ("a",), held_out=("b",), sequence_length=32, one_document=True
    )
    pretrain(path, corpus, (STAGE,), "tokenizer")


def an_encoder_without_a_head(path):
    """Which is no teacher on running text."""
    stages = RECIPES["distilbert"].stages_on_text()
    pretrain(path, CorpusSettings(sequence_length=32), stages, "teacher")


def embedders_on_classes(path):
    recipe = RECIPES["sentence_embedding"]
    settings = training.EmbedderSettings(
        recipe.name,
        TextsSettings(task="sst2"),
        "teacher",
        ModelSettings(**SIZES),
        recipe.stages,
    )
    training.distill(settings, path)


def choose_by(path, **arguments):
    callback = kdkit.StudentCheckpoint(
        path / "m.keras", save_best_only=True, **arguments
    )
    callback.set_model(keras.Sequential([keras.Input((2,))]))
    callback.on_epoch_end(0, {"val_loss": 1.0})


MISTAKES = {
    # Choices that would be ignored, or taken for others.
    "parity": (
        lambda _: AugmentSettings("sst2", None, "model", parity="tinybrt"),
        "parity",
    ),
    "mode": (lambda path: choose_by(path, mode="best"), "mode"),
    "monitor": (lambda path: choose_by(path, monitor="val_f1"), "val_f1"),
    "two sources": (
        lambda _: ModelSettings(checkpoint="a", num_layers=2),
        "checkpoint, sizes",
    ),
    "layers of nothing": (
        lambda _: ModelSettings(checkpoint="a", copy_layers=(1,)),
        "copy_layers",
    ),
    "dropout of a checkpoint": (
        lambda _: ModelSettings(checkpoint="a", dropout=0.3),
        "dropout",
    ),
    "two vocabularies": (
        lambda _: TranslationsSettings(
            ("a.en", "a.de"), tokenizer="a", vocabulary_size=9
        ),
        "both",
    ),
    # What an evaluation or a loss is not made for.
    "chosen on test": (
        lambda _: DataSettings("sst2", None, 32, dev_split="test"),
        "dev split",
    ),
    "embedders on classes": (embedders_on_classes, "scores"),
    "smoothed scores": (
        lambda _: on_arrays(
            dataclasses.replace(STAGE, label_smoothing=0.1),
            keras.losses.MeanSquaredError(),
        ),
        "class",
    ),
    "lines of one document": (
        lambda _: CorpusSettings(("a",), one_document=True),
        "files",
    ),
    "a document for an encoder": (a_document_for_an_encoder, "one_document"),
    "text on arrays": (
        lambda _: on_arrays(dataclasses.replace(STAGE, data="corpus")),
        "text",
    ),
    "parts on arrays": (lambda _: on_arrays(IN_PARTS), "gradient_accumulation"),
    "float16 on devices": (
        lambda _: run(strategy="mirrored", **FLOAT16),
        "float16",
    ),
    "parts on devices": (
        lambda _: run(stage=IN_PARTS, strategy="mirrored"),
        "gradient_accumulation|parts",
    ),
    "parts in float16": (
        lambda _: run(stage=IN_PARTS, **FLOAT16),
        "gradient_accumulation|parts",
    ),
    # Tokens, heads and positions that are not there.
    "generated words": (generated_words, "sst2"),
    "long sequences": (long_sequences, "sequence_length=32"),
    "no head": (an_encoder_without_a_head, "head"),
    # Numbers.
    "seed": (lambda _: run(seed=-1), "seed"),
    "held out": (lambda _: CorpusSettings(held_out_every=1), "held_out_every"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_would_change_numbers_in_silence_is_refused(mistake, tmp_path):
    call, words = MISTAKES[mistake]
    with pytest.raises(ValueError, match=words):
        call(tmp_path)
