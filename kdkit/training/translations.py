"""Texts with translations as a data source for sentence encoders."""

import dataclasses
import functools
import itertools
import logging
import pathlib

import numpy as np

from kdkit.data import WHOLE
from kdkit.data.selection import Choice, text_hashes
from kdkit.data.stored_translations import (
    SourceOutputs,
    StoredTranslations,
    choose_translations,
    store_translations,
)
from kdkit.errors import UsageError
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import bitext_metrics
from kdkit.training.embedding_data import (
    ContrastiveLoss,
    EmbeddingSource,
    ScoredPairs,
    TwoViews,
    encode_pairs,
)
from kdkit.training.task_data import Evaluator
from kdkit.training.translation_settings import (
    VOCABULARY_TEXTS,
    TranslationsSettings,
)

_log = logging.getLogger(__name__)
ACCURACY = "bitext_accuracy"


@dataclasses.dataclass(frozen=True, eq=False)
class Bitext:
    """Texts with translations, to measure sentence encoders."""

    texts: StoredTranslations
    languages: tuple[str, ...]

    @functools.cached_property
    def _reader(self):
        return Evaluator(None, self.texts, "held_out")

    def __call__(self, predict) -> dict[str, float]:
        """Returns how often the nearest text is the translation."""
        vectors = self._reader.logits(predict)
        rows, languages = self.texts.source_rows, self.texts.languages
        sources = np.flatnonzero(languages == 0)[
            np.argsort(rows[languages == 0])
        ]
        found = {}
        for number, name in enumerate(self.languages[1:], start=1):
            targets = np.flatnonzero(languages == number)
            if len(targets):
                metrics = bitext_metrics(
                    vectors[sources[rows[targets]]], vectors[targets]
                )
                found[f"{ACCURACY}_{name}"] = metrics["accuracy"]
        return {ACCURACY: float(np.mean([*found.values()])), **found}


@dataclasses.dataclass(frozen=True)
class TranslationSource(EmbeddingSource):
    """Texts in several languages, compared with a teacher's vectors of one."""

    languages: tuple[str, ...] = ()
    for_teacher: dict = dataclasses.field(default_factory=dict)

    primary_metric = ACCURACY
    larger_is_better = True
    measures_start = True

    def labeled_only(self):
        """Returns the texts with translations, for a loss without teacher."""
        return dataclasses.replace(
            self,
            train=WithTranslation(self.train),
            held_out=WithTranslation(self.held_out),
            label_loss=ContrastiveLoss(),
        )

    def training_stream(self, stage, seed, features=None, shares=WHOLE):
        features = _of_sources(features)
        return super().training_stream(stage, seed, features, shares)

    def validation_stream(self, stage, features=None, shares=WHOLE):
        return super().validation_stream(stage, _of_sources(features), shares)

    @functools.cached_property
    def _bitext(self):
        return Bitext(_texts(self.held_out), self.languages)

    @functools.cached_property
    def _teacher_bitext(self):
        return Bitext(self.for_teacher["held_out"], self.languages)

    def evaluate(self, predict, logs):
        return self._evaluation(predict, self._bitext, self.pairs)

    def measure(self, arm, predict):
        if arm == "teacher":
            pairs = self.for_teacher["pairs"]
            return self._evaluation(predict, self._teacher_bitext, pairs)
        return self.evaluate(predict, {})

    def _evaluation(self, predict, bitext, pairs: ScoredPairs | None):
        metrics = bitext(predict)
        if pairs is not None:
            metrics |= pairs(predict)["metrics"]
        return {
            "split": "held_out",
            "examples": len(bitext.texts.sources),
            "metrics": metrics,
            "agreement": None,
        }


def _texts(dataset):
    return getattr(dataset, "texts", dataset)


def _of_sources(features):
    """Returns features for the sources of rows instead of the rows."""
    if features is None:
        return None
    return lambda texts: SourceOutputs(
        features(texts.sources), texts.source_rows
    )


class WithTranslation(TwoViews):
    """Every text with the same line's text in another language."""

    def __init__(self, texts: StoredTranslations):
        super().__init__(texts)
        self.texts = texts
        self._partners = _partners(texts.source_rows, texts.languages)
        self.lengths = np.maximum(texts.lengths, texts.lengths[self._partners])

    def views(self, rows):
        return np.stack([rows, self._partners[rows]], axis=1).reshape(-1)


def _partners(source_rows, languages):
    """The number of the row that each row is compared with."""
    partners = np.arange(len(source_rows))
    order = np.lexsort((languages, source_rows))
    for _, group in itertools.groupby(order, key=source_rows.__getitem__):
        first, *others = group
        partners[others] = first
        if others:
            partners[first] = others[source_rows[first] % len(others)]
    return partners


def vocabulary_texts(settings: TranslationsSettings) -> list[str]:
    """Returns the texts to train a vocabulary on."""
    return [*itertools.islice(settings.texts(held_out=False), VOCABULARY_TEXTS)]


def load_translations(
    settings: TranslationsSettings,
    task: Task | None,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> tuple[TranslationSource, dict]:
    """Reads and encodes the texts of a run, and its pairs."""
    known, compared = [], []
    if task is not None:
        examples = task.load(settings.dev_split, settings.data_dir)
        known += [text for one in examples.texts for text in one]
        compared.append(f"{task.name} {settings.dev_split}")
    choice = choose_translations(
        settings.lines(),
        text_hashes(itertools.chain(known, _held_out_texts(settings))),
        settings.holds_out,
    )
    measured = choice
    if settings.held_out:
        compared.append("the held-out files")
        measured = choose_translations(settings.lines(held_out=True))

    require_translations(choice, measured, settings)

    def stored(name, tokenizer):
        is_from_files = bool(settings.held_out) and name != "train"
        return store_translations(
            functools.partial(settings.lines, is_from_files),
            measured if is_from_files else choice,
            tokenizer,
            teacher_tokenizer,
            settings.sequence_length,
            pathlib.Path(directory, name),
            len(settings.languages),
            held_out=name != "train" and not is_from_files,
        )

    pairs = [
        task and encode_pairs(task, settings, one, conventions)
        for one in (tokenizer, teacher_tokenizer)
    ]
    train, held_out = stored("train", tokenizer), stored("held_out", tokenizer)
    counts = choice.counts
    _log.info(
        f"texts: {len(train)} to train on, {len(held_out)} to measure on, in "
        f"{', '.join(settings.languages)}; {train.num_truncated} truncated to "
        f"{settings.sequence_length} tokens; left out: {counts['empty']} "
        f"without text, {counts['repeated']} repeated pairs.",
    )
    if counts["left_out"]:
        _log.warning(
            f"{counts['left_out']} texts are left out because they, or the "
            f"texts that they translate, are also in {' or '.join(compared)}."
        )
    source = TranslationSource(
        train,
        held_out,
        settings.num_buckets,
        pairs[0],
        languages=settings.languages,
        for_teacher={
            "held_out": stored("held_out_for_teacher", teacher_tokenizer),
            "pairs": pairs[1],
        },
    )
    return source, {
        "rows": counts["texts"],
        "dropped": counts["left_out"],
        "compared_with": tuple(compared),
        "empty": counts["empty"],
        "repeated": counts["repeated"],
    }


def require_translations(
    choice: Choice, measured: Choice, settings: TranslationsSettings
) -> None:
    """Checks that each language has texts to train and to measure on."""
    parts = {
        "train": choice.part(held_out=False),
        "measure": measured.part(held_out=not settings.held_out),
    }
    languages = dict(enumerate(settings.languages))
    for purpose, (rows, _) in parts.items():
        missing = {*languages} - {*(rows % len(languages)).tolist()}
        if missing:
            names = ", ".join(languages[one] for one in sorted(missing))
            raise UsageError(f"There are no texts to {purpose} on in {names}.")


def _held_out_texts(settings):
    if not settings.held_out:
        return ()
    return itertools.chain.from_iterable(settings.lines(held_out=True))
