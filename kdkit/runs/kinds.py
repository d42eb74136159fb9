"""What differs between runs of a classifier and of a language model.

A kind loads the teachers, makes the model to train and saves it. It is built
once, with the steps before the run already made.
"""

import functools
import logging
import random

import keras

from kdkit import data, models
from kdkit.config.model import Bilstm, Checkpoint, Layers, Mass, Static
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.models.heads import copy_head, is_causal, is_encoder_decoder
from kdkit.models.saving import stored_size
from kdkit.models.sizes import choose_blocks
from kdkit.quantization import RANGES_FILE, active_quantization
from kdkit.runs.tokenizer import make_tokenizer, save_trained_tokenizer
from kdkit.taps import own_names
from kdkit.training.distribution import ONE_DEVICE

_log = logging.getLogger(__name__)


class Kind:
    """A kind of run.

    Args:
        config: the run's config, with the places of its steps.
        path: `pathlib.Path` of the run directory.
        distribution: `Distribution`.
    """

    places = ()  # of the teachers
    option = "data.sequence_length"

    def __init__(self, config, path, distribution=ONE_DEVICE):
        self.config, self.path = config, path
        self.distribution = distribution
        self.tokenizer = None
        keras.utils.set_random_seed(config.training.seed)
        with distribution.scope(), own_names():
            self.teachers = [self.teacher(place) for place in self.places]
        for other in self.teachers[1:]:
            models.require_same_ids(
                self.teachers[0].tokenizer, other.tokenizer
            )
        self.model = self.make()

    @property
    def length(self) -> int:
        """The largest length of the sequences, in tokens."""
        return self.config.data.sequence_length

    def make(self) -> keras.Model:
        """Returns a model to train, with the same first weights each time."""
        keras.utils.set_random_seed(self.config.training.seed)
        with self.distribution.scope(), own_names():
            model = self.start(self.config.student)
            self.require_length(model)
            policy = self.config.training.dtype_policy
            return models.in_policy(model, policy)

    def require_length(self, model) -> None:
        """Requires that sequences fit a model's positions."""
        positions = models.num_positions(model)
        if positions is not None and self.length > positions:
            raise UsageError(
                f"Sequences of {self.length} tokens are longer than the "
                f"model's {positions} positions. Use {self.option}={positions}."
            )

    def start(self, student):
        """Returns the model that a config's student describes."""
        if isinstance(student, Checkpoint):
            loaded = self.load(student.checkpoint)
            self._take(loaded.tokenizer)
            return loaded.model
        if isinstance(student, Layers):
            return self.copied(student)
        if self.tokenizer is None:
            self.tokenizer = self.make_tokenizer()
        return self.random(student)

    def copied(self, student: Layers):
        """Returns a model with layers of an encoder."""
        if student.copy_from == "teacher":
            encoder, tokenizer = self.teachers[0].model, None
        else:
            place = student.copy_from
            if place == "pretrained":
                place = self.config.pretrained
            encoder, tokenizer = models.load_encoder(place)
        self._take(tokenizer or self.teachers[0].tokenizer)
        layers = chosen_layers(student, models.backbone_of(encoder).num_layers)
        return self.head(models.copy_blocks(encoder, layers))

    def random(self, student):
        """Returns a model with random weights."""
        return self.head(
            models.student(
                student.sizes(), vocabulary_size=self.tokenizer.vocabulary_size()
            )
        )

    def _take(self, tokenizer):
        """Takes the model's tokenizer, which reads the teachers' ids."""
        if self.teachers and tokenizer is not None:
            models.require_same_ids(self.teachers[0].tokenizer, tokenizer)
        if self.tokenizer is None:
            self.tokenizer = tokenizer or self.teachers[0].tokenizer

    def save(self, name: str, model, texts, **about) -> None:
        """Saves a trained model as a preset."""
        path = self.path / name
        if path.exists():
            return
        with staged(path, stored_size(model)) as partial, own_names():
            loaded = LoadedModel(
                models.in_policy(model, "float32"),
                self.tokenizer,
                sequence_length=self.length,
                **about,
            )
            models.save_model(loaded, partial, texts)
            quantization = active_quantization(loaded.model)
            if quantization is not None:
                quantization.save(partial / RANGES_FILE)


def chosen_layers(student: Layers, depth: int) -> tuple[int, ...]:
    """Returns the layers to copy by number, from 1."""
    if student.layers:
        return student.layers
    count = student.num_layers or max(int(depth * student.share), 1)
    return choose_blocks(student.rule, depth, count)
