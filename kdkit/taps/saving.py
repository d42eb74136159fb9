"""What Keras makes each time that it saves or loads weights, made once.

To know which attributes an optimizer has of its class, Keras makes another one
for each file. It would keep what it found, but looks it up under another name
than it keeps it under. TensorFlow never forgets the variables of such an
optimizer, so that memory grows with each file. `saving_lib` is private to
Keras; tests/runs/test_checkpoints.py pins it.
"""

from keras.src.backend.common import global_state
from keras.src.saving import saving_lib

KIND = "Optimizer"
LOOKED_UP = f"saving_attr_skiplist_{KIND}"


def remember_optimizers() -> None:
    """Lets Keras save and load weights without making optimizers for it."""
    found = saving_lib.get_attr_skipset(KIND)
    global_state.set_global_attribute(LOOKED_UP, found)
