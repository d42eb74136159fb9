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
        model: `keras.Model`, or `None` for a LiteRT file.
        run: `kdkit.training.run_directory.RunDirectory` that the model is of,
            or `None`.
        arm: string or `None`. Which model of the run it is.
        held_out: dict or `None`. Where that is what the model's own run held
            out, what text it is of, as JSON data: of another run it may be
            another text.
    """

    about: dict
    content: dict
    measure: Callable[[], dict]
    model: object
    run: object = None
    arm: str | None = None
    held_out: dict | None = None
