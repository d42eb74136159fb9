"""A model together with what measures it."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Measurable:
    """A model that can be measured, more than once.

    Args:
        about: dict. What it is measured on, as JSON data.
        content: dict. What tells that from other data of the same name, as JSON
            data: `data_digest`, of what is in it, and `sequence_length`, unless
            that is in `about`.
        measure: callable without arguments. Returns the metrics of the weights
            that the model has then, the main one first.
        model: `keras.Model`, or `None` for an exported file.
        run: `kdkit.training.run_directory.RunDirectory` that the model is of,
            or `None`.
        arm: string or `None`. Which model of the run it is.
        origin: dict or `None`. What tells it from other data of the same
            name whatever the model's tokenizer is, as JSON data: of a task its
            rows; where it is what the model's own run held out, of what text.
    """

    about: dict
    content: dict
    measure: Callable[[], dict]
    model: object
    run: object = None
    arm: str | None = None
    origin: dict | None = None
