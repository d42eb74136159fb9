"""Measures embedders.

An embedder is measured on pairs with scores, on queries with documents and
judgements, or on translations. The texts are read before the model is loaded.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

from kdkit import models, tasks
from kdkit.cli.opened import described_at, open_embedder
from kdkit.cli.places import (
    measured_task,
    names_a_table,
    require_labels,
    task_of,
)
from kdkit.data.retrieval import read_retrieval
from kdkit.data.stored_texts import read_hashes, text_hash
from kdkit.data.texts import parallel_pairs
from kdkit.errors import UsageError
from kdkit.runs import inputs
from kdkit.tasks import embedding_metrics
from kdkit.tasks.embeddings import embed_and_count

RETRIEVAL = ("queries", "documents", "judgements")
TRAINED_TEXTS = "texts/train"  # in a run directory
WAYS = (
    "pairs with scores (--task stsb, or --test FILE with --text-column and "
    "--label-column), queries (--queries, --documents and --judgements) or "
    "translations (--bitext)"
)


@dataclasses.dataclass(frozen=True, eq=False)
class _Texts:
    """Texts of two sides, and how their vectors are measured.

    Args:
        about: dict. A description of the data, as JSON data.
        sides: tuple of two lists of strings.
        metrics: callable from the vectors of both sides, the numbers of the
            examples that count, and a similarity, to metrics.
        rows_digest: string. The checksum of the data as read.
        has_pairs: bool. Whether an example is a text of each side. Otherwise it
            is a text of the first side. Defaults to `True`.
        roles: tuple of strings or `None`s. Which prompts the sides have, see
            `kdkit.models.Conventions.prompt`. Defaults to none.
    """

    about: dict
    sides: tuple[list[str], list[str]]
    metrics: Callable
    rows_digest: str
    has_pairs: bool = True
    roles: tuple[str | None, str | None] = (None, None)

    def are_known(self, hashes) -> np.ndarray:
        """Returns for each example whether one of its texts is known."""
        sides = self.sides if self.has_pairs else self.sides[:1]
        return np.any([_are_among(side, hashes) for side in sides], axis=0)


def measure_vectors(place, options, folder) -> tuple[dict, dict]:
    """Measures an embedder on texts of two sides."""
    texts = _read(place, options)
    examples = np.arange(len(texts.sides[0]))
    about, known = dict(texts.about), _trained_texts(place, options)
    if options.without_texts_of is not None:
        examples = np.flatnonzero(~texts.are_known(known))
        about["without_texts_of"] = options.without_texts_of
        about["left_out"] = len(texts.sides[0]) - len(examples)
        if not len(examples):
            raise UsageError(
                f"{options.without_texts_of} was trained on texts of all "
                "examples."
            )
        known = None
    about["examples"] = len(examples)
    opened = open_embedder(place, options)
    if opened.loaded is not None:
        conventions = opened.loaded.conventions
    else:
        read = described_at(place, options.tokenizer)
        conventions = models.find(read).conventions
    prompts = [*map(conventions.prompt, texts.roles)]
    if any(prompts):
        about["prompts"] = prompts
    similarity = conventions.similarity
    if similarity != "cosine" and options.bitext is None:
        about["similarity"] = similarity
    about["sequence_length"] = opened.sequence_length
    every = [
        prompt + text
        for prompt, side in zip(prompts, texts.sides, strict=True)
        for text in side
    ]
    vectors, about["texts_cut"] = embed_and_count(
        opened.runs, every, opened.tokenizer, opened.sequence_length
    )
    _require_dimensions(options, vectors.shape[1])
    reason = embedding_metrics.collapse(vectors)
    if reason is not None and len({*every}) > 1:
        about["collapsed"] = reason
    vectors = np.split(vectors, [len(texts.sides[0])])
    about["metrics"] = texts.metrics(*vectors, examples, similarity)
    if options.dimensions is not None:
        about["metrics_by_dimensions"] = {
            str(width): texts.metrics(
                *(side[:, :width] for side in vectors), examples, similarity
            )
            for width in options.dimensions
        }
    if known is not None:
        about.update(_overlap(texts, known, vectors, similarity))
    return about, {"data_digest": texts.rows_digest}


def reading_in_words(result) -> str:
    """Returns how texts were read and compared, empty for other results."""
    if "texts_cut" not in result:
        return ""
    length = result["sequence_length"]
    limit = "" if length is None else f" to {length} tokens"
    words = f"{result['texts_cut']} different texts were cut{limit}."
    if "prompts" in result:
        prompts = " and ".join(map(repr, dict.fromkeys(result["prompts"])))
        words += f" Before the texts: {prompts}."
    if "similarity" in result:
        words += f" Compared by {result['similarity']}."
    return words


def overlap_in_words(result) -> str:
    """Returns how many texts were also trained on, empty if unknown."""
    if "texts_in_training" not in result:
        return ""
    words = (
        f"{result['texts_in_training']} of {result['texts']} texts were also "
        f"trained on, in {result['examples_in_training']} of "
        f"{result['examples']} examples."
    )
    others = result.get("metrics_without_training_texts")
    if others:
        listed = (f"{name} {value:.4f}" for name, value in others.items())
        words += f" Without these examples: {', '.join(listed)}."
    return words


def _overlap(texts, known, vectors, similarity):
    """Counts texts that were also trained on, and measures the others."""
    different = list(dict.fromkeys([*texts.sides[0], *texts.sides[1]]))
    are_known = texts.are_known(known)
    found = {
        "texts": len(different),
        "texts_in_training": int(_are_among(different, known).sum()),
        "examples_in_training": int(are_known.sum()),
    }
    if are_known.any() and not are_known.all():
        found["metrics_without_training_texts"] = texts.metrics(
            *vectors, np.flatnonzero(~are_known), similarity
        )
    return found


def _are_among(texts, hashes):
    """Whether each text is among those with these hashes."""
    return np.isin(np.array([*map(text_hash, texts)], "uint64"), hashes)


def _trained_texts(place, options):
    """The hashes of a run's texts, `None` if they are unknown."""
    run = options.without_texts_of
    if run is None and place.run is not None and place.arm != "teacher":
        run = place.run.path
    known = None
    if run is not None:
        known = read_hashes(pathlib.Path(run, TRAINED_TEXTS))
    if known is None and options.without_texts_of is not None:
        raise UsageError(
            f"{run} has no record of the texts that it was trained on."
        )
    return known


def _require_dimensions(options, width):
    """Rejects widths of prefixes that the vectors do not have."""
    for one in options.dimensions or ():
        if not 1 <= one <= width:
            raise UsageError(
                f"Expected --dimensions from 1 to {width}. Received: {one}."
            )


def _read(place, options) -> _Texts:
    if options.bitext is not None:
        return _translations(options)
    if options.queries is not None:
        return _retrieval(options)
    return _pairs(place, options)


def _translations(options):
    pairs = parallel_pairs(options.bitext)
    sides = tuple(map(list, zip(*pairs, strict=True)))
    return _Texts(
        {"bitext": options.bitext},
        sides,
        lambda sources, targets, rows, similarity: tasks.bitext_metrics(
            sources[rows], targets[rows]
        ),
        inputs.rows_digest(list(sides)),
    )


def _retrieval(options):
    files = {name: getattr(options, name) for name in RETRIEVAL}
    same = {"ignore_same_id": True} if options.ignore_same_id else {}
    found = read_retrieval(**files, **same)

    def metrics(queries, documents, rows, similarity):
        judgements = {row: found.judgements[row] for row in rows.tolist()}
        return tasks.retrieval_metrics(
            queries, documents, judgements, found.ignored, similarity
        )

    judged = [[row, list(one.items())] for row, one in found.judgements.items()]
    sides = (found.queries, found.documents)
    return _Texts(
        {
            **files,
            **same,
            "num_documents": len(found.documents),
            "unjudged_queries": found.num_left_out,
        },
        sides,
        metrics,
        inputs.rows_digest([*sides, judged]),
        has_pairs=False,
        roles=("query", "document"),
    )


def _pairs(place, options):
    task, data_dir = _task(place, options)
    if not task.is_regression or task.num_texts != 2:
        raise UsageError(
            f"Task {task.name!r} has no pairs of texts with scores. Expected "
            f"one of {WAYS}."
        )
    split = options.split or ("test" if options.test else "dev")
    examples = task.load(split, data_dir)
    place.require_same_rows(split, examples, options)
    require_labels(examples, split)
    return _Texts(
        {"task": task.name, "split": split},
        examples.texts,
        lambda first, second, rows, similarity: tasks.pair_metrics(
            first[rows], second[rows], examples.labels[rows], similarity
        ),
        inputs.rows_digest(examples),
    )


def _task(place, options):
    """The task of pairs that options or the run name, and its data folder."""
    if names_a_table(options):
        # There is no other kind of pairs.
        options = argparse.Namespace(**vars(options) | {"regression": True})
    elif options.task is None:
        of_run = place.task_data or getattr(place.data, "scored", None)
        if of_run is None:
            raise UsageError(f"Missing: {WAYS}.")
        return task_of(of_run, options.data_dir)
    return measured_task(dataclasses.replace(place, config=None), options)
