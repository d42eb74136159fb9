"""Losses that compare a teacher's tensors with a student's tensors.

Call each one as `loss(teacher, student, sample_weight=None)`. They take
tensors only, never models. `SmoothedCrossEntropy` compares logits with labels
and is called like every Keras loss. docs/fidelity.md lists where the papers
and their code differ.

A new loss is a class with `register_loss` in a module here, one import below,
and a row in tests/kit/loss_cases.py: see CONTRIBUTING.md.
"""

from kdkit.late_names import late_names
from kdkit.losses.attention import AttentionMSE as AttentionMSE
from kdkit.losses.attention import RelationKLDivergence as RelationKLDivergence
from kdkit.losses.base import (
    DistillationLoss,
    get_loss,
    register_loss,
    registered_losses,
)
from kdkit.losses.features import EmbeddingMSE as EmbeddingMSE
from kdkit.losses.features import HiddenStateCosine as HiddenStateCosine
from kdkit.losses.features import HiddenStateMSE as HiddenStateMSE
from kdkit.losses.features import PatienceMSE as PatienceMSE
from kdkit.losses.foreign import KerasLoss
from kdkit.losses.logits import LogitKLDivergence as LogitKLDivergence
from kdkit.losses.logits import LogitMSE as LogitMSE
from kdkit.losses.logits import SoftBinaryCrossEntropy as SoftBinaryCrossEntropy
from kdkit.losses.logits import SoftCrossEntropy as SoftCrossEntropy
from kdkit.losses.logits import top_classes
from kdkit.losses.sentences import InBatchContrastive as InBatchContrastive
from kdkit.losses.sentences import MarginMSE as MarginMSE
from kdkit.losses.sentences import Matryoshka as Matryoshka
from kdkit.losses.sentences import (
    SimilarityKLDivergence as SimilarityKLDivergence,
)

# The losses are registered by the imports above.
__all__ = [
    "DistillationLoss",
    "KerasLoss",
    "SmoothedCrossEntropy",
    "get_loss",
    "register_loss",
    "top_classes",
    *(cls.__name__ for cls in registered_losses().values()),
]

# A subclass of `keras.losses.Loss`: imported when it is first used.
_DEFINED_IN = {"SmoothedCrossEntropy": "labels"}
__getattr__, _ = late_names(__name__, _DEFINED_IN)
