"""What an export tells its caller."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """A file that was written and how it compares with the Keras model.

    `dataclasses.asdict` gives the fields of an "export" event.

    Args:
        file: string. The path of the file or directory.
        format: string. `"litert"` or `"saved_model"`.
        precision: string. `"fp32"`, `"fp16"` or `"int8"`.
        size_bytes: int. The size on disk.
        sequence_length: int or `None`. The only length in tokens that the
            file takes, `None` where it takes any.
        max_abs_difference: float. The largest absolute difference between the
            outputs of the file and of the Keras model.
        same_top_class: float in [0, 1] or `None`. The share of outputs with
            the same highest logit; `None` for a single logit (regression).
        examples: int. The number of rows that were compared.
    """

    file: str
    format: str
    precision: str
    size_bytes: int
    sequence_length: int | None
    max_abs_difference: float
    same_top_class: float | None
    examples: int
