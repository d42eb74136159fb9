"""Multiple choice: a logit for each option, a softmax over the options."""

import dataclasses
from typing import ClassVar

from kdkit.data.choices import encode_questions
from kdkit.tasks.kinds import Kind


@dataclasses.dataclass(frozen=True)
class MultipleChoice(Kind):
    """One of several options of its own for each question.

    The model reads `[CLS] passage [SEP] question option [SEP]` for each option
    and gives one logit; those of a question stand in one row, so that losses
    and metrics are those of a classification among the options.
    """

    title: ClassVar[str] = "multiple choice"
    head_kind: ClassVar[str] = "multiple_choice"

    def encode(self, examples, tokenizer, sequence_length):
        return encode_questions(
            examples, tokenizer, sequence_length, self.num_classes
        )
