"""What would change a run's numbers in silence: a call, words of the error."""

import dataclasses

import keras
import pytest
from kit.trained import make_label_loss

import kdkit
from kdkit import models
from kdkit.config.data import Augmentation, Corpus, TaskData, Texts
from kdkit.config.model import Sizes
from kdkit.config.runs import (
    EmbedderConfig,
    TaskConfig,
    TextConfig,
    Training,
)
from kdkit.recipes import RECIPES, Stage
from kdkit.runs.run import run

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


def fine_tuning(stage=STAGE, task="sentiment", training=None, **data):
    """The config of a run that fine-tunes a model."""
    return TaskConfig(
        recipe="fine_tuning",
        data=TaskData(task=task, **{"sequence_length": 32, **data}),
        student=Sizes(**SIZES),
        stages=(stage,),
        training=Training(**(training or {})),
    )


def long_sequences(path):
    run(fine_tuning(sequence_length=64), path)


def generated_words(path):
    folder = path / "SST-2"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("sentence\tlabel\na\t0\n")
    run(fine_tuning(task="sst2", data_dir=str(path)), path / "run")


def pretrain(path, corpus, stages, use):
    """Trains an encoder with the tokenizer or teacher of a saved one."""
    tokenizer = models.word_piece_tokenizer(
        kdkit.data.sentiment_vocabulary(), lowercase=True
    )
    sizes = SIZES | {"vocabulary_size": tokenizer.vocabulary_size()}
    loaded = models.LoadedModel(models.student(sizes), tokenizer)
    models.save_model(loaded, path / "encoder")
    saved = {use: str(path / "encoder")}
    config = TextConfig(
        recipe="pretraining",
        corpus=corpus,
        student=Sizes(**SIZES),
        stages=stages,
        **saved,
    )
    run(config, path / "run")


def a_document_for_an_encoder(path):
    corpus = Corpus(
        files=("a",), held_out=("b",), sequence_length=32, one_document=True
    )
    pretrain(path, corpus, (STAGE,), "tokenizer")


def an_encoder_without_a_head(path):
    """Which is no teacher on running text."""
    stages = RECIPES["distilbert"].stages_on_text()
    pretrain(path, Corpus(files=(), sequence_length=32), stages, "teacher")


def embedders_on_classes(path):
    recipe = RECIPES["sentence_embedding"]
    config = EmbedderConfig(
        recipe=recipe.name,
        data=Texts(files=(), scored=TaskData(task="sst2")),
        teacher="teacher",
        student=Sizes(**SIZES),
        stages=recipe.stages,
    )
    run(config, path)


def choose_by(path, **arguments):
    callback = kdkit.StudentCheckpoint(
        path / "m.keras", save_best_only=True, **arguments
    )
    callback.set_model(keras.Sequential([keras.Input((2,))]))
    callback.on_epoch_end(0, {"val_loss": 1.0})


MISTAKES = {
    # Choices that would be ignored, or taken for others.
    "parity": (
        lambda _: Augmentation(
            data=TaskData(task="sst2"), model="model", parity="tinybrt"
        ),
        "parity",
    ),
    "mode": (lambda path: choose_by(path, mode="best"), "mode"),
    "monitor": (lambda path: choose_by(path, monitor="val_f1"), "val_f1"),
    # What an evaluation or a loss is not made for.
    "chosen on test": (
        lambda _: TaskData(task="sst2", dev_split="test"),
        "dev split",
    ),
    "embedders on classes": (embedders_on_classes, "scores"),
    "smoothed scores": (
        lambda _: make_label_loss(
            dataclasses.replace(STAGE, label_smoothing=0.1),
            keras.losses.MeanSquaredError(),
        ),
        "class",
    ),
    "lines of one document": (
        lambda _: Corpus(files=("a",), one_document=True),
        "files",
    ),
    "a document for an encoder": (a_document_for_an_encoder, "one_document"),
    "float16 on devices": (
        lambda _: fine_tuning(training={"strategy": "mirrored", **FLOAT16}),
        "float16",
    ),
    "parts on devices": (
        lambda _: fine_tuning(IN_PARTS, training={"strategy": "mirrored"}),
        "gradient_accumulation|parts",
    ),
    "parts in float16": (
        lambda _: fine_tuning(IN_PARTS, training=FLOAT16),
        "gradient_accumulation|parts",
    ),
    # Tokens, heads and positions that are not there.
    "generated words": (generated_words, "sst2"),
    "long sequences": (long_sequences, "sequence_length=32"),
    "no head": (an_encoder_without_a_head, "head"),
    # Numbers.
    "seed": (lambda _: fine_tuning(training={"seed": -1}), "seed"),
    "held out": (
        lambda _: Corpus(files=(), held_out_every=1),
        "held_out_every",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_would_change_numbers_in_silence_is_refused(mistake, tmp_path):
    call, words = MISTAKES[mistake]
    with pytest.raises(ValueError, match=words):
        call(tmp_path)
