"""Every kind of model that recipes train, tiny, with a batch to train it on.

Each function returns what learns, what it learns from, the objectives and a
batch of a few rows.
"""

import dataclasses

import numpy as np

from kdkit import models
from kdkit.models.architectures import padding_row as padding_row
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training import make_label_loss as make_label_loss
from kdkit.training import make_optimizer as make_optimizer
from kit.helpers import (
    LENGTH,
    ON_TASKS,
    VOCABULARY_SIZE,
    batch,
    bert,
    decoder,
    labels,
    mass,
    spread_weights,
)

ROWS = 4


def objectives_of_all_recipes():
    """Those on a task and of encoders alone, each once, by a name of its own.

    So that a few traces hold for all recipes.
    """
    task = get_task("sst2")
    found = {}
    for recipe in map(RECIPES.get, ON_TASKS):
        before = sum(recipe.prerequisites.values(), ())
        for stage in (*recipe.stages_for(task), *before):
            for objective in stage.objectives:
                found[repr(dataclasses.replace(objective, name=""))] = objective
    return [
        dataclasses.replace(objective, name=f"{objective.name}_{number}")
        for number, objective in enumerate(found.values())
    ]


def full_rows():
    """Inputs without padding: each part of a batch has as many tokens."""
    shape = (ROWS, LENGTH)
    generator = np.random.default_rng(0)
    x = {
        "token_ids": generator.integers(1, VOCABULARY_SIZE, shape),
        "segment_ids": np.zeros(shape),
        "padding_mask": np.ones(shape),
    }
    return {name: values.astype("int32") for name, values in x.items()}


def classifiers():
    """A student of two blocks for a teacher of four."""
    batch = full_rows(), labels(ROWS).astype("int32")
    return bert(2, seed=2), bert(4, seed=1), objectives_of_all_recipes(), batch


def bilstms():
    """A BiLSTM that reads pairs, for a transformer; rows with padding."""
    config = models.BilstmConfig(
        units=3,
        embedding_dim=5,
        intermediate_dim=7,
        vocabulary_size=VOCABULARY_SIZE,
        dropout=0.0,
        num_texts=2,
    )
    student = models.student(config, num_classes=3)
    spread_weights(student, 2)
    (stage,) = RECIPES["distilled_bilstm"].stages
    x = batch(ROWS)
    x["segment_ids"][:, 1:] = x["padding_mask"][:, 1:]
    y = labels(ROWS).astype("int32")
    return student, bert(1, seed=1), stage.weighted_objectives(), (x, y)


def masked_lms():
    """DistilBERT's pretraining: two masked tokens of each row."""
    teacher, student = (
        models.language_model(bert(1, num_classes=None)) for _ in range(2)
    )
    for seed, model in enumerate((teacher, student), start=1):
        spread_weights(model, seed)
    (stage,) = RECIPES["distilbert"].stages_on_text()
    x = full_rows()
    x["mask_positions"] = np.tile(np.array([0, 1], "int32"), (ROWS, 1))
    y = x["token_ids"][:, :2]
    weights = np.ones(y.shape, "float32")
    return student, teacher, stage.weighted_objectives(), (x, y, weights)


def decoders():
    """LightPAFF's next tokens."""
    ids = np.random.default_rng(0).integers(0, 40, (ROWS, 9)).astype("int32")
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    batch = x, ids[:, 1:], np.ones((ROWS, 8), "float32")
    return decoder(1, seed=2), decoder(2, seed=1), _soft_labels("gpt2"), batch


def encoder_decoders():
    """LightPAFF's tokens of a target."""
    generator = np.random.default_rng(0)
    source, target = generator.integers(5, 12, (2, ROWS, 4)).astype("int32")
    real = np.ones_like(source)
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": real,
        "decoder_token_ids": target,
        "decoder_padding_mask": real,
        "decoder_positions": np.cumsum(real, axis=1, dtype="int32") - 1,
    }
    teacher, student = (mass(12, 1, 1, 2, 8, 12, dropout=0.0) for _ in range(2))
    for seed, model in enumerate((teacher, student), start=1):
        spread_weights(model, seed)
    batch = x, generator.permuted(target), np.ones((ROWS, 4), "float32")
    return student, teacher, _soft_labels("mass"), batch


def _soft_labels(family):
    stage, *_ = RECIPES["lightpaff"].for_families[family].stages
    return stage.weighted_objectives()


KINDS = {
    "classifiers": classifiers,
    "bilstms": bilstms,
    "masked_lms": masked_lms,
    "decoders": decoders,
    "encoder_decoders": encoder_decoders,
}
