"""Multi-label classification: any number of classes for a text."""

import dataclasses
from typing import ClassVar

import keras
import numpy as np
import scipy.special

from kdkit.tasks.agreement import check_pair
from kdkit.tasks.baseline import of_decisions
from kdkit.tasks.kinds import Kind


@dataclasses.dataclass(frozen=True)
class MultiLabel(Kind):
    """Each class is there or not: a sigmoid over each logit.

    Labels are 0 or 1, of shape `(num_rows, num_classes)`. A class is predicted
    where its probability is above one half.
    """

    title: ClassVar[str] = "multi-label"
    soft_label_loss: ClassVar[str] = "soft_binary_cross_entropy"

    def label_loss(self):
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def training_metrics(self):
        return []

    def predict(self, logits):
        return (logits > 0).astype("int32")

    def baseline(self, targets, logits):
        return of_decisions(np.asarray(targets), self.predict(logits))

    def agreement(self, teacher_logits, student_logits):
        """Returns the share of equal decisions, and the divergence.

        Returns:
            Dict with `"same_decisions"`, the share of rows and classes with
            the same answer, and `"kl_divergence"`, the mean over rows of the
            sum over classes of the binary KL(teacher ‖ student) in nats.
        """
        teacher, student = check_pair(teacher_logits, student_logits)
        divergences = np.zeros_like(teacher)
        for sign in (1, -1):
            log_teacher = scipy.special.log_expit(sign * teacher)
            log_student = scipy.special.log_expit(sign * student)
            divergences += np.exp(log_teacher) * (log_teacher - log_student)
        return {
            "same_decisions": float(np.mean((teacher > 0) == (student > 0))),
            "kl_divergence": float(divergences.sum(axis=1).mean()),
        }
