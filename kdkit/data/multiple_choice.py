"""Questions on passages with options, and their encoding."""

import dataclasses

import numpy as np

from kdkit import models
from kdkit.data.encoding import EncodedExamples, room_for_text, tokenize
from kdkit.data.tables import Columns
from kdkit.errors import UsageError


@dataclasses.dataclass(frozen=True, eq=False)
class Questions(Columns):
    """Questions on passages, each with the same number of options.

    Args:
        passages: list of strings, one per question.
        questions: list of strings.
        options: list of tuples of strings, all of the same length.
        labels: `int32` array of shape `(num_rows,)`, the number of the right
            option, or `None`.

    Raises:
        UsageError: if the columns differ in length, or the questions in their
            numbers of options.

    >>> rows = Questions(["It rains."], ["Is it wet?"], [("yes", "no")])
    >>> rows.num_options
    2
    """

    passages: list[str]
    questions: list[str]
    options: list[tuple[str, ...]]
    labels: np.ndarray | None = None

    def __post_init__(self):
        super().__post_init__()
        num_options = {len(options) for options in self.options}
        if len(num_options) != 1:
            raise UsageError(
                "Every question needs the same number of options. Received: "
                f"{sorted(num_options)} options."
            )

    @property
    def num_options(self) -> int:
        """The number of options of every question."""
        return len(self.options[0])

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The passage, the question and the options of each question."""
        columns = zip(*self.options, strict=True)
        return list(zip(self.passages, self.questions, *columns, strict=True))


def encode_questions(
    examples: Questions, tokenizer, sequence_length: int, num_options: int
) -> EncodedExamples:
    """Tokenises questions, one sequence for each option.

    The format is `[CLS] passage [SEP] question option [SEP]`, with the
    separators of the tokenizer's family. If that is too long, the passage's end
    is truncated; if no passage is left, the question's beginning is truncated,
    too.

    Args:
        examples: `Questions`.
        tokenizer: as in `encode`.
        sequence_length: int. The largest number of tokens in a sequence,
            special tokens included.
        num_options: int. The model's number of options per question.

    Returns:
        `EncodedExamples` with `num_options` sequences per example. An
        example counts as truncated if one of its sequences is.

    Raises:
        UsageError: if the questions have another number of options, or
            `sequence_length` is too small for any text.
    """
    if examples.num_options != num_options:
        raise UsageError(
            f"The questions have {examples.num_options} options, the task "
            f"{num_options}."
        )
    tokenizer = models.as_tokenizer(tokenizer)
    num_separators = tokenizer.num_separators
    num_special = 2 + num_separators
    room = room_for_text(sequence_length, num_special)
    rows = [
        (passage, [f"{question} {option}" for option in options])
        for passage, question, *options in examples.rows
    ]
    pieces = tokenize(
        [*examples.passages, *(tail for _, tails in rows for tail in tails)],
        tokenizer,
    )
    start, end = [tokenizer.start_token_id], [tokenizer.end_token_id]
    token_ids, segment_ids, lengths, truncated = [], [], [], set()
    separators = num_separators * end
    for row, (passage, tails) in enumerate(rows):
        for text in tails:
            head, tail = pieces[passage], pieces[text]
            if len(head) + len(tail) > room:
                truncated.add(row)
                tail = tail[-room:]
                head = head[: room - len(tail)]
            token_ids += [start, head, separators, tail, end]
            first_length = len(head) + 1 + num_separators
            lengths.append(len(head) + len(tail) + num_special)
            segment_ids.append(np.arange(lengths[-1]) >= first_length)
    return EncodedExamples(
        token_ids=np.concatenate(token_ids).astype("int32"),
        segment_ids=np.concatenate(segment_ids).astype("int32"),
        lengths=np.array(lengths, "int32"),
        labels=examples.labels,
        sequence_length=sequence_length,
        num_truncated=len(truncated),
        pad_token_id=tokenizer.pad_token_id,
        sequences_per_row=num_options,
    )
