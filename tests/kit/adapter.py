"""All that the contract reads from kdkit beyond its public interface.

The other files of tests/runs/ use the public Python names, the command
lines and the files in run directories. Whoever moves or renames an internal
module edits this file and nothing else here. It must go on giving what it
gives now: the goldens depend on that.
"""

import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import threading
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from kdkit import export, models, tasks
from kdkit.cli.main import main
from kdkit.runs import calls
from kdkit.runs import run as running

ROOT = pathlib.Path(__file__).parents[2]
SECONDS = 600  # until a command in a process of its own counts as hanging


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a command line came to: exit status and the two outputs."""

    status: int
    out: str
    err: str


def command(words) -> Answer:
    """Runs `kdkit WORDS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
    return Answer(int(status or 0), out.getvalue(), err.getvalue())


def command_apart(words, folder) -> Answer:
    """Runs `python -m kdkit WORDS` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kdkit", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def recorded_configs():
    """Yields a list that gets the configs of runs, which do not run."""
    configs = []

    def record(config, *_):
        configs.append(config.model_dump(mode="json"))
        return mock.MagicMock()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run", record)
        patch.setattr(calls, "Distillation", mock.Mock())
        yield configs


def resolved(words) -> dict:
    """The config that a command line runs, without running it."""
    with recorded_configs() as configs:
        answer = command(words)
    assert answer.status == 0, answer
    (config,) = configs
    return config


@contextlib.contextmanager
def recorded_batches():
    """Yields a list that gets, for each compiled step, its batches' digests.

    A digest is of the token ids and their shapes. The step is recorded where
    Keras compiles it, so that steps of several replicas are left out.
    """
    recorded, lock = [], threading.Lock()
    make_train_function = keras.Model.make_train_function

    def make_and_record(self, force=False):
        if "train_step" not in vars(self):
            digests, step = [], self.train_step
            recorded.append(digests)

            def note(*token_ids):
                digest = hashlib.sha256()
                for ids in token_ids:
                    digest.update(str(ids.shape).encode())
                    digest.update(np.ascontiguousarray(ids, "<i4").tobytes())
                with lock:
                    digests.append(digest.hexdigest()[:8])
                return np.int32(0)

            def train_step(data):
                x = keras.utils.unpack_x_y_sample_weight(data)[0]
                token_ids = [x[n] for n in sorted(x) if n.endswith("token_ids")]
                tf.numpy_function(note, token_ids, tf.int32)
                return step(data)

            self.train_step = train_step
        return make_train_function(self, force)

    keras.Model.make_train_function = make_and_record
    try:
        yield recorded
    finally:
        keras.Model.make_train_function = make_train_function


def load(kind, path) -> keras.Model:
    """The Keras model that a run left: a classifier, of text or of vectors."""
    if kind == "classifier":
        return models.load_classifier(path, 2).model
    if kind == "masked":
        return models.load_masked_lm(path).model
    if kind == "embedder":
        return models.load_embedder(path).model
    return models.load_language_model(path).model


def embeddings(path, texts) -> np.ndarray:
    """A sentence encoder's vectors of texts, by its own tokenizer."""
    loaded = models.load_embedder(path)
    return tasks.embed_texts(
        loaded.model, texts, loaded.tokenizer, loaded.sequence_length
    )


def token_logits(path, source_ids, token_ids) -> np.ndarray:
    """What the exported file of a decoder gives, token by token.

    Args:
        source_ids: list of ints or `None`, for an encoder-decoder its source.
        token_ids: list of ints.
    """
    if source_ids is None:
        return export.LiteRTDecoder(path)(token_ids)
    return export.LiteRTSeq2Seq(path)(source_ids, token_ids)
