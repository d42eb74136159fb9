"""Kinds of runs that train a sentence encoder: its teacher, start and vectors.

The student learns a teacher's vectors of texts, the vectors of its translations
(`MultilingualKind`), or a cross-encoder's scores (`RetrieverKind`).
"""

import dataclasses
import logging
import os

import numpy as np

from kdkit import models
from kdkit.config.model import Layers, Static
from kdkit.data.stream import make_forward
from kdkit.errors import UsageError
from kdkit.models import DenseSettings, LoadedModel, Pooling
from kdkit.models.conventions import COSINE, DOT, MANHATTAN, PLAIN
from kdkit.models.embedders import (
    dense_layers,
    principal_components,
    with_encoder,
)
from kdkit.recipes.sentence_embedding import (
    compares_widths,
    for_other_width,
    keeps_lengths,
)
from kdkit.runs.kinds import (
    TOKENIZER,
    Kind,
    computed_once,
    require_length,
    save_tokenizer,
    tokenizer_of,
)
from kdkit.runs.log import log_before_training
from kdkit.taps import ModelShape, own_names
from kdkit.training.candidates import CACHED, candidates_source
from kdkit.training.source import predict_logits
from kdkit.training.texts import (
    ScoredPairs,
    texts_source,
    translations_source,
    vocabulary_texts,
)

_log = logging.getLogger(__name__)
TEXTS = "texts"  # the folder of the encoded texts in a run
COMPONENTS, VECTORS = "components.npz", "token_vectors.npz"  # in a run
MOST_TEXTS = 4096  # for principal components


class EmbedderKind(Kind):
    """A sentence encoder that learns a teacher's vectors of texts."""

    vectors = None  # of the tokens, the start of a static student

    def read(self):
        self.pairs = ScoredPairs(self.config.data.scored)

    def fit(self):
        """Lets objectives compare vectors of the student's width."""
        teacher, student = self.teachers[0].model, self.config.student
        ours, theirs = (one.output_shape[-1] for one in (self.model, teacher))
        stages = self.config.stages
        if ours != theirs and not isinstance(student, Static):
            stages = for_other_width(stages, is_wider=ours > theirs)
            self.config = self.config.replace(stages=stages)
            _log.info(f"vectors of {ours} numbers learn from {theirs}.")
        compares = any(map(compares_widths, self.config.objectives))
        self.width = theirs
        if isinstance(student, Static) or compares:
            self.width = min(ours, theirs)
        if self.width < theirs:
            dense = DenseSettings(self.width, use_bias=False)
            with self.devices.scope(), own_names():
                encoder = models.backbone_of(teacher)
                self.compared = [with_encoder(teacher, encoder, dense)]
        self.require_fit(self.compared, self.model, stages)
        self.require_lengths_kept()

    def require_lengths_kept(self) -> None:
        """Requires losses and data that keep what vectors are compared by."""
        similarity = self.conventions.similarity
        is_free = not models.pooling_of(self.teachers[0].model).normalize
        others = [
            one.name
            for one in self.config.objectives
            if is_free and not keeps_lengths(one)
        ]
        if similarity == MANHATTAN and self.is_reduced:
            others.append("principal components")
        if similarity != COSINE and others:
            raise UsageError(
                f"The teacher's vectors are compared by {similarity}, which "
                "depends on their lengths. Expected hidden_state_mse. "
                f"Received: {', '.join(others)}."
            )

    @property
    def is_reduced(self) -> bool:
        """Whether the teacher's vectors are reduced to their components."""
        return self.compared[0] is not self.teachers[0].model

    def teacher(self, place):
        teacher = models.load_embedder(place, self.config.pooling)
        self.require_length(teacher.model)
        length = self.config.data.sequence_length
        if (teacher.sequence_length or length) > length:
            _log.info(
                f"the student reads texts of up to {length} tokens, the "
                f"teacher was made for {teacher.sequence_length}: --set "
                f"data.sequence_length={teacher.sequence_length}."
            )
        self.conventions = teacher.conventions
        return teacher

    @property
    def pooling(self) -> Pooling:
        """The teacher's pooling without dense layers."""
        pooling = models.pooling_of(self.teachers[0].model)
        return Pooling(pooling.mode, pooling.normalize)

    def load(self, place):
        pooling = self.pooling
        if models.find(place).kind == "embedder":
            pooling = pooling.mode  # its normalization is described there
        return models.load_embedder(place, pooling)

    def copied(self, student):
        if not self.copies_teacher:
            raise UsageError(
                'Expected student.copy_from="teacher", whose layers a sentence '
                f"encoder starts from. Received: {student.copy_from!r}."
            )
        teacher = self.teachers[0].model
        # Each text has a vector of its own to learn, so dropout is only noise.
        layers = self.layers(student, teacher)
        return models.dropped_layers(teacher, layers, dropout=0.0)

    def head(self, backbone):
        return models.make_embedder(backbone, self.pooling)

    def random(self, student):
        if not isinstance(student, Static):
            return super().random(student)
        return models.make_static_embedder(
            self.tokenizer,
            min(student.dimensions, self.teachers[0].model.output_shape[-1]),
            self.pooling.normalize,
        )

    def make(self):
        model = super().make()
        if self.vectors is not None:
            self._set_table(model)
        return model

    @property
    def num_rows(self):
        """About how many texts there are: the lines of all files of lines."""
        files = self.config.data.files
        if any(map(os.path.isdir, files)):
            return None
        return sum(map(_count_lines, files))

    def source(self):
        source = self.load_source()
        if isinstance(self.config.student, Static):
            self._texts = source.train
            found = computed_once(self.folder / VECTORS, self._token_vectors)
            self.vectors = found["vectors"]
            with self.devices.scope():
                self._set_table(self.model)
        elif self.is_reduced:
            found = computed_once(
                self.folder / COMPONENTS,
                lambda: self._text_components(source.train),
            )
        if self.is_reduced:
            with self.devices.scope():
                dense = dense_layers(self.compared[0])[-1]
                dense.set_weights([found["components"]])
        return source

    def load_source(self, read=texts_source, **more):
        """Returns the texts that the run trains on."""
        return read(
            self.config.data,
            self.pairs,
            self.tokenizer,
            directory=self.folder / TEXTS,
            conventions=self.conventions,
            **more,
        )

    def _set_table(self, model):
        """Sets the first table of a static student."""
        models.set_token_vectors(
            model,
            self.vectors,
            self.tokenizer,
            self._texts.token_ids,
            self._texts.lengths,
            self.config.student.sif,
        )

    def _token_vectors(self):
        """The teacher's vectors of the tokens, in their components."""
        size = self.tokenizer.vocabulary_size()
        first, last = self.tokenizer.start_token_id, self.tokenizer.end_token_id
        _log.info(f"running the teacher on each of {size} tokens.")
        rows = [(first, token_id, last) for token_id in range(size)]
        vectors = self._teacher_vectors(self._texts, rows).astype("float32")
        components = np.eye(vectors.shape[1], dtype="float32")
        if self.is_reduced:
            components = principal_components(vectors, self.width)
        return {"components": components, "vectors": vectors @ components}

    def _teacher_vectors(self, texts, rows):
        """The teacher's vectors of token ids, encoded in the way of texts."""
        token_ids = np.concatenate(rows).astype("int32")
        chosen = dataclasses.replace(
            texts,
            token_ids=token_ids,
            segment_ids=np.zeros_like(token_ids),
            lengths=np.array([*map(len, rows)], "int32"),
        )
        return predict_logits(self.forwards[0], chosen)

    def _text_components(self, texts):
        """The components of the teacher's vectors of every n-th text."""
        texts = getattr(texts, "sources", texts)
        count = min(MOST_TEXTS, len(texts))
        rows = [texts.row(row * len(texts) // count) for row in range(count)]
        _log.info(
            f"running the teacher on {count} texts for their "
            f"{self.width} principal components."
        )
        vectors = self._teacher_vectors(texts, rows).astype("float64")
        components = principal_components(vectors, self.width)
        centered = vectors - vectors.mean(axis=0)
        explained = np.square(centered @ components).sum()
        total = max(np.square(centered).sum(), np.finfo(float).tiny)
        _log.info(
            f"the components have {explained / total:.1%} of the vectors' "
            "variance."
        )
        return {"components": components}

    def measure(self, run, source, caches):
        if source.evaluate_teacher is None:
            return
        outputs = self.teacher_outputs(caches)
        start = models.in_policy(self.model, "float32")
        log_before_training(
            run, "teacher", "teacher", lambda: source.evaluate_teacher(outputs)
        )
        log_before_training(
            run,
            "student",
            "student before training",
            lambda: source.evaluate(make_forward(start)),
        )

    def teacher_outputs(self, caches):
        """Returns what the teacher is measured by, such as its forward pass."""
        return self.forwards[0]

    def saved(self, model):
        return LoadedModel(
            model,
            self.tokenizer,
            sequence_length=self.config.data.sequence_length,
            conventions=self.conventions,
        )

    def texts(self):
        return self.config.data.texts(held_out=True)


class MultilingualKind(EmbedderKind):
    """A sentence encoder that learns further languages from translations."""

    def fit(self):
        require_no_prompts(self.conventions)
        super().fit()

    def first_tokenizer(self):
        if hasattr(self.config.student, "checkpoint"):
            return None  # the checkpoint has one
        folder = self.folder / TOKENIZER
        return tokenizer_of(self.config.data.tokenizer, folder, self._train)

    def _train(self, size):
        teacher = self.teachers[0].tokenizer
        return models.train_word_pieces(
            vocabulary_texts(self.config.data),
            size,
            lowercase=getattr(teacher, "lowercase", True),
        )

    def copied(self, student):
        made = super().copied(student)
        tokenizer = self.teachers[0].tokenizer
        return models.with_vocabulary(made, tokenizer, self.tokenizer)

    def load_source(self):
        if isinstance(self.config.data.tokenizer, int):
            save_tokenizer(self.tokenizer, self.folder / TOKENIZER)
        tokenizer = self.teachers[0].tokenizer
        return super().load_source(
            translations_source, teacher_tokenizer=tokenizer
        )


class RetrieverKind(EmbedderKind):
    """A sentence encoder that learns a cross-encoder's scores."""

    entries = CACHED

    def fit(self):
        require_no_prompts(self.conventions)
        similarity = self.conventions.similarity
        if similarity not in (COSINE, DOT):
            raise UsageError(
                "The student's scores are products of vectors. Expected the "
                f"similarity cosine or dot. Received: {similarity}."
            )
        shape, ranker = ModelShape(num_classes=2), self.ranker(self.model, 2)
        self.require_fit(shape, ranker, self.config.stages)

    def ranker(self, model, num_candidates: int):
        """Returns a model of the scores of each query's candidates."""
        with self.devices.scope(), own_names():
            scale = self.config.data.scale
            return models.make_ranker(model, num_candidates, scale)

    def teacher(self, place):
        teacher, self.conventions = models.load_reranker(place), PLAIN
        length = self.config.data.pair_length
        require_length(length, teacher.model, "data.pair_length")
        return teacher

    def first_tokenizer(self):
        student = self.config.student
        is_other = hasattr(student, "checkpoint") or (
            isinstance(student, Layers) and not self.copies_teacher
        )
        return None if is_other else self.teachers[0].tokenizer

    def load(self, place):
        loaded = models.load_embedder(place, self.config.pooling)
        self.conventions = loaded.conventions
        return loaded

    @property
    def pooling(self):
        return Pooling(self.config.pooling or "mean")

    def copied(self, student):
        if self.copies_teacher:
            return Kind.copied(self, student)
        loaded = self.load(student.copy_from)
        self.take(loaded.tokenizer)
        layers = self.layers(student, loaded.model)
        return models.dropped_layers(loaded.model, layers)

    def load_source(self):
        tokenizer = self.teachers[0].tokenizer
        return super().load_source(
            candidates_source, teacher_tokenizer=tokenizer
        )

    def teacher_outputs(self, caches):
        return caches.features(None, None)

    def legs(self, arm, model, source, caches):
        count = source.train.num_candidates
        ranker, scores = self.ranker(model, count), ModelShape(count)
        fields = {"caches": caches, "measured": model}
        yield self.leg(arm, ranker, scores, source, self.arms[arm], **fields)


def require_no_prompts(conventions) -> None:
    """Raises an error for prompts in a run that does not follow them."""
    prompts = [one for one in conventions.prompts.values() if one]
    if prompts:
        raise UsageError(
            "The sentence encoder has prompts, and this recipe trains without. "
            f"Received: {', '.join(map(repr, prompts))}."
        )


def _count_lines(file):
    """The line ends in a file."""
    with open(file, "rb") as opened:
        blocks = iter(lambda: opened.read(1 << 20), b"")
        return sum(block.count(b"\n") for block in blocks)
