"""Records the calls of layers while a model runs.

Each layer keeps its tensors to itself, also in a subclassed model, which has no
graph. While a model runs here, methods of its layers write down what they
receive and return: the tensors of the model's only forward pass, with its
dropout and its masks.
"""

import contextlib
import functools
import threading
from typing import Any, NamedTuple

_lock = threading.Lock()
_thread = threading.local()  # a replica of `MirroredStrategy` is a thread


class Method(NamedTuple):
    """A method of a layer, such as its `call`."""

    layer: Any
    name: str


class Call(NamedTuple):
    """One call of a method, and its result."""

    method: Method
    args: tuple
    kwargs: dict
    output: Any


@contextlib.contextmanager
def recorded(methods):
    """Yields a list that gets each `Call` of some methods in this thread."""
    wanted, calls = set(methods), []
    records = vars(_thread).setdefault("records", [])
    with _lock:
        for method in wanted:
            _listen(method)
    records.append((wanted, calls))
    try:
        yield calls
    finally:
        records.pop()
        with _lock:
            for method in wanted:
                _stop_listening(method)


def _listen(method):
    """Replaces a layer's method by one that adds its calls to the records."""
    attributes = vars(method.layer)
    replaced = attributes.get(method.name)
    if not hasattr(replaced, "num_users"):
        function = getattr(method.layer, method.name)

        @functools.wraps(function)
        def listening(*args, **kwargs):
            output = function(*args, **kwargs)
            for wanted, calls in vars(_thread).get("records", ()):
                if method in wanted:
                    calls.append(Call(method, args, kwargs, output))
            return output

        listening.num_users, listening.replaced = 0, replaced
        attributes[method.name] = listening
    attributes[method.name].num_users += 1


def _stop_listening(method):
    attributes = vars(method.layer)
    listening = attributes[method.name]
    listening.num_users -= 1
    if listening.num_users == 0:
        del attributes[method.name]
        if listening.replaced is not None:
            attributes[method.name] = listening.replaced
