"""Losses between what a teacher and a student compute.

Each is called as `loss(teacher, student, sample_weight=None)` and knows
tensors only; `SmoothedCrossEntropy`, of labels, as any loss of Keras.
docs/fidelity.md says where the papers and their code differ.
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

# A loss of Keras, which needs Keras.
__getattr__, _ = late_names(__name__, {"SmoothedCrossEntropy": "labels"})
