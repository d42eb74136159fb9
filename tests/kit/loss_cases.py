"""Every loss of kdkit with the shape of what it compares."""

import dataclasses

import numpy as np

from kdkit import losses

BATCH, LENGTH = 4, 3


@dataclasses.dataclass(frozen=True)
class Case:
    """A loss with the shape of what it compares.

    `positions` counts the axes of length LENGTH, which padding lengthens. A
    loss that `compares_examples` with each other is no sum over parts of a
    batch. Without `has_minimum` equal tensors do not have the smallest loss.
    """

    loss: object
    shape: tuple
    positions: int = 0
    counts_padding: bool = False
    compares_examples: bool = False
    has_minimum: bool = True

    @property
    def id(self):
        config = self.loss.get_config()
        reading = config.get("parity") or config.get("mean_over")
        if "loss" in config:
            reading = config["loss"]["name"]
        return self.loss.name + (f"-{reading}" if reading else "")


LOGITS = (BATCH, 5)
TOKEN_LOGITS = (BATCH, LENGTH, 5)
STATES = (BATCH, LENGTH, 6)
SENTENCES = (BATCH, 6)
VECTORS = (BATCH, LENGTH, 2, 6)
MATRICES = (BATCH, 2, LENGTH, LENGTH)

CASES = [
    Case(losses.SoftCrossEntropy(temperature=2.0), LOGITS),
    Case(losses.SoftCrossEntropy(parity="tinybert"), TOKEN_LOGITS, 1),
    Case(losses.SoftBinaryCrossEntropy(temperature=2.0), LOGITS),
    Case(losses.SoftBinaryCrossEntropy(), TOKEN_LOGITS, 1),
    Case(losses.LogitKLDivergence(temperature=2.0), LOGITS),
    Case(losses.LogitKLDivergence(parity="pkd"), TOKEN_LOGITS, 1),
    Case(losses.LogitKLDivergence(top_k=2), TOKEN_LOGITS, 1),
    Case(losses.LogitMSE(), TOKEN_LOGITS, 1),
    Case(losses.HiddenStateMSE(), STATES, 1),
    Case(losses.HiddenStateMSE("tinybert"), STATES, 1, counts_padding=True),
    Case(losses.EmbeddingMSE(), STATES, 1),
    Case(losses.HiddenStateCosine(), STATES, 1),
    Case(losses.PatienceMSE(), (BATCH, 6)),
    Case(losses.PatienceMSE(parity="pkd"), (BATCH, 6)),
    Case(losses.AttentionMSE(), MATRICES, 2),
    Case(losses.AttentionMSE("tinybert"), MATRICES, 2, counts_padding=True),
    Case(losses.RelationKLDivergence(3), VECTORS, 1),
    Case(losses.RelationKLDivergence(3, mean_over="positions"), VECTORS, 1),
    Case(losses.SimilarityKLDivergence(0.2), SENTENCES, compares_examples=True),
    Case(
        losses.InBatchContrastive(0.2),
        SENTENCES,
        compares_examples=True,
        has_minimum=False,
    ),
    Case(losses.MarginMSE(), LOGITS),
    Case(losses.Matryoshka("hidden_state_cosine", (6, 3)), SENTENCES),
    Case(
        losses.Matryoshka(losses.SimilarityKLDivergence(0.2), (6, 3), (2, 1)),
        SENTENCES,
        compares_examples=True,
        has_minimum=False,
    ),
]


def draw(case, seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    return (scale * generator.normal(size=(2, *case.shape))).astype("float32")
