"""Losses that compare a teacher's tensors with a student's tensors.

Call each one as `loss(teacher, student, sample_weight=None)`. They take
tensors only, never models. `SmoothedCrossEntropy` compares logits with labels
and is called like every Keras loss. docs/fidelity.md lists where the papers
and their code differ.
"""

from kdkit.late_names import late_names
from kdkit.losses.attention import AttentionMSE
from kdkit.losses.attention import RelationKLDivergence
from kdkit.losses.base import DistillationLoss
from kdkit.losses.base import get_loss
from kdkit.losses.base import register_loss
from kdkit.losses.features import EmbeddingMSE
from kdkit.losses.features import HiddenStateCosine
from kdkit.losses.features import HiddenStateMSE
from kdkit.losses.features import PatienceMSE
from kdkit.losses.logits import LogitKLDivergence
from kdkit.losses.logits import LogitMSE
from kdkit.losses.logits import SoftBinaryCrossEntropy
from kdkit.losses.logits import SoftCrossEntropy
from kdkit.losses.logits import top_classes

__all__ = [
    "AttentionMSE",
    "DistillationLoss",
    "EmbeddingMSE",
    "HiddenStateCosine",
    "HiddenStateMSE",
    "LogitKLDivergence",
    "LogitMSE",
    "PatienceMSE",
    "RelationKLDivergence",
    "SmoothedCrossEntropy",
    "SoftBinaryCrossEntropy",
    "SoftCrossEntropy",
    "get_loss",
    "register_loss",
    "top_classes",
]

# A subclass of `keras.losses.Loss`: imported when it is first used.
__getattr__, _ = late_names(__name__, {"SmoothedCrossEntropy": "labels"})
