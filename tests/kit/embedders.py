"""Sentence encoders of the shared runs: variants, vectors, and NumPy."""

import functools
import json

import numpy as np
import scipy.stats

from kdkit import models, tasks
from kit.adapter import command
from kit.helpers import (
    log_softmax,
    read_events,
    stopped_after_save,
    units,
)
from kit.runs import LENGTH, settings

INTERRUPTED = 130  # the exit status
TEMPERATURE = 0.05
WIDTH = 16  # of a student with random weights
RANDOM = {
    "num_layers": 1, "hidden_dim": WIDTH, "num_heads": 2,
    "intermediate_dim": 24, "max_sequence_length": 32, "dropout": 0.1,
}  # fmt: skip


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


def cosines(first, second):
    """The cosine of each vector with that in the same row."""
    return np.sum(units(first) * units(second), axis=1)


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


class Saved:
    """A run's models and data, and what NumPy computes from them."""

    def __init__(self, workspace, run):
        self.folder, self.run = workspace.path, run
        first, second, scores = columns(self.folder / "pairs.tsv")
        self.pairs = first, second, [*map(float, scores)]
        self.corpus = lines(self.folder / "corpus.txt")

    def vectors(self, arm, texts):
        if arm == "teacher":
            return vectors(self.folder / "encoder", texts, "mean")
        return vectors(self.run / arm, texts)

    def array(self, file, name="components"):
        with np.load(self.run / file) as saved:
            return saved[name]

    def correlations(self, arm):
        *sides, scores = self.pairs
        return correlations(
            cosines(*(self.vectors(arm, side) for side in sides)), scores
        )

    def best(self, arm):
        """The metrics and the logged losses of an arm's best epoch."""
        (end,) = read_events(self.run, "run_finished")
        epochs = [
            one["logs"]
            for one in read_events(self.run, "epoch")
            if one["arm"] == arm
        ]
        chosen = end["best"][arm]
        return {**chosen["metrics"], **epochs[chosen["epoch"] - 1]}


def bitext_accuracy(sources, targets):
    """The mean of both directions; equal cosines share a hit."""
    matrix = units(sources) @ units(targets).T
    hits = [
        one >= one.max(axis=1, keepdims=True) - 1e-6
        for one in (matrix, matrix.T)
    ]
    return np.mean([np.diag(one) / one.sum(axis=1) for one in hits])


def contrastive(first, second):
    """The loss of SimCSE by NumPy."""
    logits = units(first) @ units(second).T / TEMPERATURE
    loss = -np.diag(log_softmax(logits)).mean()
    assert loss < 0.9 * np.log(len(logits)), "no text differs from others"
    return loss
