"""What would change a run's numbers in silence: a call, words of the error."""

import dataclasses
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import bert

import kdkit
from kdkit.data import Candidates
from kdkit.errors import RunError, UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import (
    AugmentedSettings,
    AugmentSettings,
    CacheSettings,
    CandidatesSettings,
    CorpusSettings,
    DataSettings,
    ModelSettings,
    PairSettings,
    TextsSettings,
    TranslationsSettings,
    UnlabeledSettings,
    candidate_data,
    distribution,
    making,
    optimizers,
    run_on_arrays,
    text_data,
    translations,
)
from kdkit.training.callbacks import StopAtNonFinite
from kdkit.training.model_settings import validate_jit_compile, validate_seed
from kdkit.training.sources import token_metrics
from kdkit.training.task_data import open_pairs

STAGE = RECIPES["tinybert"].stages[1]
IN_PARTS = dataclasses.replace(STAGE, gradient_accumulation_steps=2)
MULTILINGUAL = types.SimpleNamespace(languages=("en", "de"))


def settings(*changes):
    return lambda: override(smoke.TEACHER, changes)


def on_arrays(stage):
    return lambda: run_on_arrays([stage], None, None, None, None)


def queries(train, held_out=None):
    """Loads a run's queries with candidates."""
    parts = {False: train, True: held_out}

    class Settings(CandidatesSettings):
        def read(self, held_out=False):
            return parts[held_out]

    made = Settings(("a",), held_out=("b",) * (held_out is not None))
    return lambda: candidate_data.load_rows(made, None, None, None, None)


def candidates(count, number):
    texts = [f"text {place}" for place in range(number)]
    return Candidates(["query"] * count, [texts] * count)


class Second(distribution.Distribution):
    """The second of two processes, whose first has another number."""

    def _numbers_of_all(self, number):
        return [number + 1, number]


def use_three_of_two_gpus(monkeypatch):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"]
    )
    distribution.use_devices(3)


def stop_at_nan():
    StopAtNonFinite("first").on_train_batch_end(0, {"loss": np.nan})


def measure_nan():
    batch = {}, np.zeros((1, 2), "int32"), np.ones((1, 2), "float32")
    token_metrics(lambda x: np.full((1, 2, 3), np.nan), [batch])


def choose_by(**arguments):
    callback = kdkit.StudentCheckpoint(
        "m.keras", save_best_only=True, **arguments
    )
    callback.set_model(keras.Sequential([keras.Input((2,))]))
    callback.on_epoch_end(0, {"val_loss": 1.0})


def loss_with_smoothing():
    stage = dataclasses.replace(
        STAGE, hard_label_weight=1.0, label_smoothing=0.1
    )
    optimizers.make_label_loss(stage, keras.losses.MeanSquaredError())


def tokenizer_of_a_task():
    task = get_task("sst2")
    making.make_model(smoke.TEACHER.model, task)


def translations_of_one_language():
    made = TranslationsSettings(("a.en", "a.de"), vocabulary_size=9)
    choice = types.SimpleNamespace(
        is_part=lambda every, held_out: np.array([[True, False]])
    )
    translations.require_translations(choice, choice, made)


def languages_of(*languages):
    made = PairSettings(languages=languages)
    text_data.require_vocabulary(made, MULTILINGUAL)


MISTAKES = {
    # Choices that would be ignored, or taken for others.
    "parity": (
        lambda: AugmentSettings("sst2", None, "model", parity="tinybrt"),
        "Unknown parity",
    ),
    "precision": (lambda: CacheSettings("cache", "fp8"), "Unknown precision"),
    "strategy": (settings("strategy=tpu"), "Unknown strategy"),
    "mode": (lambda: choose_by(mode="best"), "Unknown mode"),
    "monitor": (lambda: choose_by(monitor="val_f1"), "Unknown log"),
    "two sources": (
        lambda: ModelSettings(checkpoint="a", num_layers=2),
        "checkpoint, sizes",
    ),
    "layers of nothing": (
        lambda: ModelSettings(checkpoint="a", copy_layers=(1,)),
        "go together",
    ),
    "dropout of a checkpoint": (
        lambda: ModelSettings(checkpoint="a", dropout=0.3),
        "dropout are for",
    ),
    "two vocabularies": (
        lambda: TranslationsSettings(
            ("a.en", "a.de"), tokenizer="a", vocabulary_size=9
        ),
        "Received: both",
    ),
    # What an evaluation or a loss is not made for.
    "chosen on test": (
        lambda: DataSettings("sst2", None, 32, dev_split="test"),
        "on a dev split",
    ),
    "embedders on classes": (
        lambda: open_pairs(TextsSettings(task="sst2")),
        "pairs of texts with scores",
    ),
    "smoothed scores": (loss_with_smoothing, "one class each"),
    "lines of one document": (
        lambda: CorpusSettings(("a",), one_document=True),
        "only whole files",
    ),
    "a document for an encoder": (
        lambda: text_data.require_readable(
            CorpusSettings(("a",), held_out=("b",), one_document=True), bert()
        ),
        "is for decoders",
    ),
    "text on arrays": (
        on_arrays(dataclasses.replace(STAGE, data="corpus")),
        "on running text",
    ),
    "parts on arrays": (on_arrays(IN_PARTS), "into parts"),
    "float16 on devices": (
        settings("strategy=mirrored", "dtype_policy=mixed_float16"),
        "one replica alone",
    ),
    "parts on devices": (
        settings("strategy=mirrored", "stages.0.gradient_accumulation_steps=2"),
        "for one device",
    ),
    "parts in float16": (
        settings(
            "dtype_policy=mixed_float16",
            "stages.0.gradient_accumulation_steps=2",
        ),
        "mix two batches",
    ),
    "other settings": (
        lambda: Second(rank=1).require_same("settings", {"seed": 0}),
        "different settings",
    ),
    "fewer GPUs": (use_three_of_two_gpus, "1 to 2 devices"),
    # Tokens, heads and texts that are not there.
    "generated words": (tokenizer_of_a_task, "no tokenizer for task"),
    "no languages": (languages_of, "language tokens"),
    "long sequences": (
        lambda: making.require_length(7, bert(), "--length "),
        "--length 6",
    ),
    "other candidates": (
        queries(candidates(2, 3), candidates(2, 4)),
        "3 candidates, those to measure on 4",
    ),
    "no query": (queries(candidates(2, 3)), "1 are repeated"),
    "no translations": (translations_of_one_language, "train on in de"),
    # Numbers.
    "nan in a loss": (stop_at_nan, "loss became nan"),
    "nan on text": (measure_nan, "not finite"),
    "seed": (lambda: validate_seed(-1), "a seed from 0"),
    "jit_compile": (lambda: validate_jit_compile("all"), "true, false"),
    "length": (lambda: DataSettings("sst2", None, 2), "sequence_length"),
    "held out": (lambda: CorpusSettings(held_out_every=1), "held_out_every"),
    "texts held out": (
        lambda: TextsSettings(held_out_every=1),
        "held_out_every",
    ),
    "scale": (lambda: CandidatesSettings(scale=0.0), "scale"),
    "unlabelled": (
        lambda: UnlabeledSettings(("a",), per_labeled=0.0),
        "per_labeled",
    ),
    "copies": (
        lambda: AugmentedSettings("a", copies_per_epoch=0),
        "copies_per_epoch",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_would_change_numbers_in_silence_is_refused(mistake, monkeypatch):
    call, words = MISTAKES[mistake]
    arguments = [monkeypatch] * call.__code__.co_argcount
    with pytest.raises((UsageError, RunError), match=words):
        call(*arguments)


def test_an_encoder_without_a_head_is_no_teacher_of_text(monkeypatch):
    loaded = types.SimpleNamespace(has_trained_head=False)
    monkeypatch.setattr(
        making.models, "load_language_model", lambda source: loaded
    )
    with pytest.raises(UsageError, match="no trained head"):
        making.load_text_teacher(pathlib.Path("encoder"), needs_head=True)
    assert making.load_text_teacher("encoder", needs_head=False) is loaded
