"""Checks of kdkit.training's modules: each row goes with its module."""

import types

import numpy as np
import pytest
import tensorflow as tf

from kdkit.config import data as config
from kdkit.data.retrieval import Candidates
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.runs.embedders import RetrieverKind
from kdkit.training import candidates, distribution, text, texts
from kdkit.training.callbacks import StopAtNonFinite
from kdkit.training.texts import ScoredPairs


def queries(train, held_out=None):
    """Loads a run's queries with candidates."""
    parts = {False: train, True: held_out}

    class Settings(config.Candidates):
        def read(self, held_out=False):
            return parts[held_out]

    held_out_files = ("b",) * (held_out is not None)
    made = Settings(files=("a",), held_out=held_out_files)
    pairs = ScoredPairs(None)
    candidates.candidates_source(made, pairs, None, None, None, PLAIN)


def equal_queries(count, number):
    texts = [f"text {place}" for place in range(number)]
    return Candidates(["query"] * count, [texts] * count)


class Second(distribution.Distribution):
    """The second of two processes, whose first has another number."""

    def _numbers_of_all(self, number):
        return [number + 1, number]


def three_of_two_gpus():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"]
        )
        distribution.use_devices(3)


def nan_on_text():
    batch = {}, np.zeros((1, 2), "int32"), np.ones((1, 2), "float32")
    text.token_metrics(lambda x: np.full((1, 2, 3), np.nan), [batch], "")


def translations_of_one_language():
    part = np.arange(1), np.arange(1)
    texts.require_languages("train", part, ("en", "de"))


def no_languages():
    tokenizer = types.SimpleNamespace(languages=("en", "de"))
    text.require_vocabulary(config.Pairs(files=()), tokenizer)


def scores_of_distances():
    kind = RetrieverKind.__new__(RetrieverKind)
    kind.conventions = Conventions(similarity="euclidean")
    kind.fit()


MISTAKES = {
    "nan in a loss": (
        lambda: StopAtNonFinite("first").on_train_batch_end(
            0, {"loss": np.nan}
        ),
        "loss became nan",
    ),
    "nan on text": (nan_on_text, "not finite"),
    "other candidates": (
        lambda: queries(equal_queries(2, 3), equal_queries(2, 4)),
        "3 candidates.* 4",
    ),
    "no query": (lambda: queries(equal_queries(2, 3)), "1 are repeated"),
    "no languages": (no_languages, "language"),
    "no translations": (translations_of_one_language, "de"),
    "other settings": (
        lambda: Second(rank=1).require_same("settings", {"seed": 0}),
        "settings",
    ),
    "scores of distances": (scores_of_distances, "cosine or dot"),
    "fewer GPUs": (three_of_two_gpus, "1 to 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_would_change_numbers_in_silence_is_refused(mistake):
    call, words = MISTAKES[mistake]
    with pytest.raises((ValueError, RuntimeError), match=words):
        call()
