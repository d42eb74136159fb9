"""What teachers said of dev when they were measured, for the losses on it."""

from kdkit.backends import tf
from kdkit.taps import Entry
from kdkit.teacher_cache import OutputsOfTeachers

LOGITS = Entry("logits")


def kept_logits(stage, evaluator):
    """Returns what adds the teachers' logits to the batches of dev.

    So a teacher is not run over them in every epoch. Of other taps there is far
    more, for which there are teacher caches.

    Args:
        stage: `Stage`.
        evaluator: `Evaluator`.

    Returns:
        A callable as `kdkit.data.evaluation_batches` takes it; `None` where a
        stage reads more than logits, or the evaluator has none of every
        position that a loss may look at.
    """
    taps = {objective.tap for objective in stage.objectives}
    if (
        taps != {LOGITS.tap}
        or not evaluator.teachers_logits
        or evaluator.encoded.has_label_per_token
    ):
        return None
    outputs = OutputsOfTeachers(map(_Kept, evaluator.teachers_logits))
    return lambda encoded: outputs


class _Kept:
    """The logits of a teacher by row, as `OutputsOfTeachers` takes them."""

    def __init__(self, logits):
        self._logits = logits

    @property
    def signature(self):
        shape = (None, *self._logits.shape[1:])
        return {LOGITS.name: tf.TensorSpec(shape, self._logits.dtype)}

    def row_bytes(self, padded_length):
        del padded_length
        return self._logits[0].nbytes

    def __call__(self, rows, padded_length):
        del padded_length
        return {LOGITS.name: self._logits[rows]}
