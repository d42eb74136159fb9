"""The numbers in the names of Keras objects, which are written into files.

Keras numbers objects without a name in the order of their creation:
`softmax_7` is the eighth one of its process. The name is part of weight files
and configs. A resumed process creates fewer objects, so its files would have
other bytes. The functions here set the numbers where the models of a run are
built and saved. `object_name_uids` is private to Keras;
tests/numbers/test_naming.py pins it.
"""

import collections
import contextlib

from keras.src.backend.common import global_state

COUNTERS = "object_name_uids"
# Above the numbers in any model: objects that are built on a model's layers
# later, such as its taps, must not get the layers' names.
LATER = 30_000


class _Numbers(collections.defaultdict):
    """Counters that start at a number, also for a name's first object."""

    def __contains__(self, name):
        return True


@contextlib.contextmanager
def own_names():
    """Names objects that are created in the block as in a new process."""
    global_state.set_global_attribute(COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        number_later()


@contextlib.contextmanager
def kept_names():
    """Restores the name counters after the block."""
    before = global_state.get_global_attribute(COUNTERS)
    try:
        yield
    finally:
        global_state.set_global_attribute(
            COUNTERS, collections.defaultdict(int) if before is None else before
        )


def number_later() -> None:
    """Numbers objects that are created from here on from `LATER` up."""
    numbers = _Numbers(lambda: LATER)
    global_state.set_global_attribute(COUNTERS, numbers)
