"""The numbers in the names of Keras objects, which files keep.

Keras numbers objects without a name as they are made: `softmax_7` is the eighth
of its process. The name is written into files of weights and of configs, so
what is saved after a resumption, by a process that made fewer of them, would be
other bytes. Here the numbers are set where the models of a run are made and
saved. `object_name_uids` is private to Keras; tests/test_naming.py pins it.

To know which attributes an optimizer has of its class, Keras makes another one
for each file. It would keep what it found, but looks it up under another name
than it keeps it under. TensorFlow never forgets the variables of such an
optimizer, so that memory grows with each file. `saving_lib` is private to
Keras; tests/runs/test_checkpoints.py pins it.
"""

import collections
import contextlib

from keras.src.backend.common import global_state
from keras.src.saving import saving_lib

COUNTERS = "object_name_uids"
# Above the numbers of any model: what is built on its layers later, such as its
# taps, must not have their names.
LATER = 30_000


class _Numbers(collections.defaultdict):
    """Counters from a number on, also of the first name."""

    def __contains__(self, name):
        return True


@contextlib.contextmanager
def own_names():
    """Names what is made in the block as in a new process."""
    global_state.set_global_attribute(COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        number_later()


@contextlib.contextmanager
def kept_names():
    """Goes on after the block with the names that a program had before it."""
    before = global_state.get_global_attribute(COUNTERS)
    try:
        yield
    finally:
        global_state.set_global_attribute(
            COUNTERS, collections.defaultdict(int) if before is None else before
        )


def number_later() -> None:
    """Numbers what is made from here on as if nothing had been made before."""
    numbers = _Numbers(lambda: LATER)
    global_state.set_global_attribute(COUNTERS, numbers)


KIND = "Optimizer"
LOOKED_UP = f"saving_attr_skiplist_{KIND}"


def remember_optimizers() -> None:
    """Lets Keras save and load weights without making optimizers for it."""
    found = saving_lib.get_attr_skipset(KIND)
    global_state.set_global_attribute(LOOKED_UP, found)
