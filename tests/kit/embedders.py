"""Sentence encoders of the shared runs: variants, vectors, and NumPy."""

import functools
import json

import numpy as np
import scipy.stats

from kdkit import models, tasks
from kit.adapter import command
from kit.helpers import stopped_after_save
from kit.runs import LENGTH, settings

INTERRUPTED = 130  # the exit status


def changes(**values):
    """`--set` for each, with the value as JSON."""
    return settings(**{name: json.dumps(values[name]) for name in values})


def like(name, **values):
    """The words for a run with the settings of a shared run, but for some."""
    return (f"@{name}/config.json", *changes(**values))


def try_to_distill(workspace, words, to):
    """The answer of `kdkit distill`."""
    if words[0].endswith("/config.json"):
        workspace.make(words[0][1:].split("/")[0])
    return command(["distill", *workspace.words(words), "--run-dir", to])


def distill(workspace, words, to):
    """Runs `kdkit distill`; returns the run's directory."""
    answer = try_to_distill(workspace, words, to)
    assert answer.status == 0, answer
    return to


def distill_in_two_parts(workspace, words, to, saves, between):
    """Stops the run after so many saves, calls a function, goes on."""
    words = (*words, *changes(training__checkpoint_minutes=0))
    with stopped_after_save(saves):
        if try_to_distill(workspace, words, to).status == INTERRUPTED:
            raise KeyboardInterrupt
    between()
    distill(workspace, words, to)


@functools.lru_cache(maxsize=8)
def loaded(place, pooling=None):
    """A sentence encoder that no test changes."""
    return models.load_embedder(place, pooling)


def vectors(place, texts, pooling=None):
    """A sentence encoder's vectors of texts, by its own tokenizer."""
    one = loaded(place, pooling)
    return tasks.embed_texts(one.model, texts, one.tokenizer, LENGTH)


def unit(rows):
    """The rows with a length of 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def cosines(first, second):
    """The cosine of each vector with that in the same row."""
    return np.sum(unit(first) * unit(second), axis=1)


def correlations(similarities, scores):
    """The metrics of scored pairs."""
    return {
        "spearman": scipy.stats.spearmanr(similarities, scores).statistic,
        "pearson": scipy.stats.pearsonr(similarities, scores).statistic,
    }


def lines(path):
    """The lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def columns(path):
    """The columns of a table without its header."""
    return [*zip(*(line.split("\t") for line in lines(path)[1:]), strict=True)]
