"""All classes of kdkit that Keras' files may hold, and so register with Keras.

`from kdkit import Distiller` imports this module.
"""

from kdkit.distillation.distiller import Distiller as Distiller
from kdkit.losses import labels as labels
from kdkit.models import mass as mass
from kdkit.models import tokenizer as tokenizer
from kdkit.models import variants as variants
from kdkit.training import optimizers as optimizers
