"""A sentence encoder to learn from, and runs that are stopped and go on."""

import keras

from kdkit import data, models
from kdkit.models import Pooling
from kdkit.settings import override
from kdkit.training import distill
from kit.helpers import stopped_after_save


def make_large(model):
    """Makes the random weights large, so that texts have unlike vectors."""
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(5 * weight)


def save_teacher(path, sizes, length):
    """Saves a tiny sentence encoder with large random weights."""
    keras.utils.set_random_seed(1)
    tokenizer = models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    backbone = models.student(
        sizes, vocabulary_size=tokenizer.vocabulary_size()
    )
    make_large(backbone)
    model = models.make_embedder(backbone, Pooling())
    models.save_embedder(model, tokenizer, path, length)
    return path


def distill_in_two_parts(settings, path, saves):
    """Stops a run after so many saves; goes on to its end."""
    steps = override(settings, ["checkpoint_minutes=0"])
    with stopped_after_save(saves):
        distill(steps, path)
    distill(steps, path)


def same_weights(run, other, arm):
    """Whether the student of an arm is the same in both, bit for bit."""
    one, two = (
        (place / arm / "model.weights.h5").read_bytes()
        for place in (run, other)
    )
    return one == two
