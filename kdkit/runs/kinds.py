"""What differs between runs: how models start, what they read, what is saved.

A kind loads the teachers, makes the models to train, reads the data, and saves
the results. It is made once in a run, when the steps before it are finished.
The kinds are in `classifiers`, `language_models` and `embedders`.
"""

import contextlib
import pathlib
import zipfile
from collections.abc import Callable

import keras
import numpy as np

from kdkit import data, models
from kdkit.config.model import Checkpoint, Layers, Mass
from kdkit.data.stream import make_forward
from kdkit.distillation.layer_maps import layer_map
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.models.saving import stored_size
from kdkit.models.tokenizer_files import load_saved_tokenizer
from kdkit.quantization import RANGES_FILE, active_quantization
from kdkit.taps import own_names
from kdkit.training import text
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE
from kdkit.training.stage import Arm
from kdkit.training.trainers import stage_distiller

TOKENIZER = "tokenizer"  # the folder of a trained one in a run


class Kind:
    """A kind of run.

    A subclass defines `teacher(place)` and `load(place)`, which return a
    `LoadedModel`; `head(backbone)`, the model to train; `fit()`, which requires
    that teachers, student and data fit each other; `source()`, the data; and
    what is saved with the model, `saved(model)`, and `texts()`, on which its
    saved tokenizer is tried.

    Attributes:
        teachers: list of `LoadedModel`.
        compared: list of the teachers' models, as objectives compare them.
        tokenizer: the tokenizer of the data and of the saved models.
        model: `keras.Model`, the student with its first weights.

    Args:
        config: the run's config, with the places of its steps.
        folder: `pathlib.Path` of the run directory.
        devices: `Distribution`. Defaults to one device.
    """

    entries = None  # that a cache has, if not those that objectives read

    def __init__(self, config, folder, devices=ONE_DEVICE):
        self.config, self.folder, self.devices = config, folder, devices
        self.tokenizer = None
        self.read()
        keras.utils.set_random_seed(config.training.seed)
        with devices.scope(), own_names():
            self.teachers = [self.teacher(place) for place in config.teachers]
        for other in self.teachers[1:]:
            models.require_same_ids(self.teachers[0].tokenizer, other.tokenizer)
        self.compared = [one.model for one in self.teachers]
        self.forwards = [make_forward(one.model) for one in self.teachers]
        self.tokenizer = self.first_tokenizer()
        self.model = self.make()
        self.fit()

    def read(self) -> None:
        """Reads what needs no model, before the models are loaded."""

    @property
    def arms(self) -> dict:
        """The stages of each model that is trained, by its folder."""
        return self.config.arms

    def first_tokenizer(self):
        """Returns the tokenizer, `None` if it comes with the student."""
        return self.teachers[0].tokenizer if self.teachers else None

    def make(self) -> keras.Model:
        """Returns a model to train, with the same first weights each time."""
        keras.utils.set_random_seed(self.config.training.seed)
        with self.devices.scope(), own_names():
            model = self.start(self.config.student)
            self.require_length(model)
            policy = self.config.training.dtype_policy
            return models.in_policy(model, policy)

    def start(self, student) -> keras.Model:
        """Returns the model that a config's student describes."""
        if isinstance(student, Checkpoint):
            loaded = self.load(student.checkpoint)
            self.take(loaded.tokenizer)
            return loaded.model
        if isinstance(student, Layers):
            return self.copied(student)
        if self.tokenizer is None:
            self.tokenizer = self.make_tokenizer()
        return self.random(student)

    def copied(self, student: Layers) -> keras.Model:
        """Returns a model with layers of the teacher or another encoder."""
        if self.copies_teacher:
            encoder = self.teachers[0].model
        else:
            place = self.config.student.copy_from
            if place == "pretrained":
                place = self.config.pretrained
            encoder, tokenizer = models.load_encoder(place)
            self.take(tokenizer)
        layers = self.layers(student, encoder)
        return self.head(models.copy_blocks(encoder, layers))

    @property
    def copies_teacher(self) -> bool:
        """Whether the student's layers are the teacher's."""
        place = self.config.student.copy_from
        same = [models.find(one).path for one in self.config.teachers[:1]]
        return place == "teacher" or models.find(place).path in same

    def layers(self, student: Layers, encoder) -> tuple[int, ...]:
        """Returns the layers to copy by number, from 1."""
        if not student.layers:
            depth = models.backbone_of(encoder).num_layers
            count = student.num_layers or max(int(depth * student.share), 1)
            chosen = tuple(layer_map(student.rule, depth, count).values())
            student = student.replace(layers=chosen, num_layers=None)
            self.config = self.config.replace(student=student)
        return student.layers

    def random(self, student) -> keras.Model:
        """Returns a model with random weights."""
        size = self.tokenizer.vocabulary_size()
        sizes = dict(student)
        if isinstance(student, Mass):
            sizes = models.MassConfig(**sizes)
        return self.head(models.student(sizes, vocabulary_size=size))

    def take(self, tokenizer) -> None:
        """Takes the model's tokenizer, or requires that it has the same ids."""
        if self.tokenizer is None:
            self.tokenizer = tokenizer
        elif tokenizer is not None:
            models.require_same_ids(self.tokenizer, tokenizer)

    def require_length(self, model) -> None:
        """Requires that the sequences fit a model's positions."""
        part = "corpus" if self.config.kind == "text" else "data"
        length = getattr(self.config, part).sequence_length
        require_length(length, model, f"{part}.sequence_length")

    def require_fit(self, teachers, model, stages, weights=None) -> None:
        """Requires that objectives fit teachers and student."""
        with self.devices.scope():
            for stage in stages:
                if stage.objectives:
                    stage_distiller(stage, teachers, model, weights)

    @property
    def num_rows(self) -> int | None:
        """About how many examples there are to train on, `None` if unknown."""
        return None

    def open_caches(self, part=None) -> TeacherCaches | None:
        """Returns the caches of the teachers' outputs, if the run has them."""
        cache = self.config.cache
        if cache is None:
            return None
        return TeacherCaches(
            cache.replace(directory=str(self.folder / cache.directory)),
            self.compared,
            self.config.teachers,
            part,
            self.devices,
            self.entries,
        )

    def load_text(self, corpus, model):
        """Returns the text of a config as a source for a model."""
        folder = self.folder / "corpus"
        return text.load_text(corpus, self.tokenizer, folder, model)

    def measure(self, run, source, caches) -> None:
        """Measures and logs what is known before training."""

    def legs(self, arm: str, model, source, caches):
        """Yields the parts of an arm's training, in their order."""
        stages = self.arms[arm]
        yield self.leg(arm, model, self.compared, source, stages, caches=caches)

    def leg(self, arm, model, teachers, source, stages, **fields) -> Arm:
        """Returns a part of an arm's training."""
        fields["distribution"] = self.devices
        training = self.config.training
        return Arm(arm, model, teachers, source, stages, training, **fields)

    def save(self, name: str, model) -> None:
        """Saves a trained model as a preset, unless it was saved before."""
        path = self.folder / name
        if path.exists():
            return
        with staged(path, stored_size(model)) as partial, own_names():
            loaded = self.saved(models.in_policy(model, "float32"))
            models.save_model(loaded, partial, self.texts())
            quantization = active_quantization(loaded.model)
            if quantization is not None:
                quantization.save(partial / RANGES_FILE)

    def finish_arm(self, run, arm: Arm, best) -> None:
        """Measures and logs what is known of a trained model only."""


def load_text_teacher(place: str) -> LoadedModel:
    """Loads a language model with a trained head."""
    teacher = models.load_language_model(place)
    if not teacher.has_trained_head:
        raise UsageError(
            f"The encoder in {place} has no trained head for masked tokens. "
            "Train one with kdkit pretrain."
        )
    return teacher


def require_length(length: int, model, field: str) -> None:
    """Requires that sequences, whose length is a field, fit a model."""
    positions = models.num_positions(model)
    if positions is not None and length > positions:
        raise UsageError(
            f"Sequences of {length} tokens are longer than the model's "
            f"{positions} positions. Use --set {field}={positions}."
        )


def tokenizer_of(asked: str | int, folder, train):
    """Loads a tokenizer, or trains one of a size, once in a run."""
    if isinstance(asked, str):
        return models.load_tokenizer(asked)
    return load_saved_tokenizer(folder) if folder.is_dir() else train(asked)


def save_tokenizer(tokenizer, folder) -> None:
    """Saves a trained tokenizer, for when the run continues."""
    if not folder.is_dir():
        with staged(folder) as partial:
            partial.mkdir()
            tokenizer.save_assets(partial)


def computed_once(file: pathlib.Path, compute: Callable[[], dict]) -> dict:
    """Returns the arrays of a run's file, which is written if missing."""
    broken = (OSError, EOFError, ValueError, zipfile.BadZipFile)
    # NumPy leaves a damaged archive open.
    with contextlib.suppress(*broken), open(file, "rb") as content:
        return dict(np.load(content))
    arrays = compute()
    with staged(file) as partial, open(partial, "wb") as opened:
        np.savez(opened, **arrays)
    return arrays


def generated_tokenizer():
    """Returns the tokenizer of the generated sentences."""
    vocabulary = data.sentiment_vocabulary()
    return models.word_piece_tokenizer(vocabulary, lowercase=True)
