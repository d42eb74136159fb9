"""How many numbers models hold, counted before memory is taken for them."""

import math
import random
import threading

import keras


def number_of_weights(build) -> int | None:
    """Builds a model without the values of its weights and counts these.

    In a `keras.StatelessScope` variables have shapes alone; Keras lists them to
    give them values later, a list for each thread. Here a thread of its own
    makes them, and its list ends with it.

    Args:
        build: callable that returns a Keras object, or lists and dicts of them.

    Returns:
        int, or `None` where it cannot be built so: what is wrong with it is
        told when it is loaded.
    """
    counts = []

    def count():
        try:
            with keras.StatelessScope(initialize_variables=False):
                built = keras.tree.flatten(build())
                counts.append(
                    sum(
                        math.prod(variable.shape)
                        for part in built
                        for variable in getattr(part, "weights", ())
                    )
                )
        except Exception:  # Keras and keras-hub raise many kinds
            pass

    state = random.getstate()  # Keras draws seeds of initializers from it
    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    thread.join()
    random.setstate(state)
    return counts[0] if counts else None


def number_of_weights_of(config) -> int | None:
    """As `number_of_weights`, for a config as Keras writes it.

    Args:
        config: dict, as JSON has it.
    """
    return number_of_weights(
        lambda: keras.saving.deserialize_keras_object(_not_compiled(config))
    )


def _not_compiled(value):
    """A config without optimisers and states, which are made with values."""
    if isinstance(value, list):
        return [_not_compiled(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    value = {
        name: _not_compiled(entry)
        for name, entry in value.items()
        if name != "compile_config"
    }
    if "stateful" in value:
        value["stateful"] = False
    if "backbone" in value:  # of a task of keras-hub, which compiles itself
        value["compile"] = False
    return value
