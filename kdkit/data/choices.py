"""Multiple choice: passages, questions and their options."""

import dataclasses

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import tokenize
from kdkit.errors import UsageError
from kdkit.models.families import family_of


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions on passages, each with the same number of options.

    Args:
        passages: list of strings, one per question.
        questions: list of strings.
        options: list of tuples of strings, as long as each other.
        labels: `int32` array of shape `(num_rows,)`, the number of the right
            option, or `None`.

    Raises:
        UsageError: if the columns differ in length or a question has fewer or
            more options than the first.

    >>> rows = Questions(["It rains."], ["Is it wet?"], [("yes", "no")])
    >>> rows.num_options
    2
    """

    passages: list[str]
    questions: list[str]
    options: list[tuple[str, ...]]
    labels: np.ndarray | None = None

    def __post_init__(self):
        columns = [self.passages, self.questions, self.options]
        if self.labels is not None:
            columns.append(self.labels)
        num_rows = sorted({len(column) for column in columns})
        if len(num_rows) != 1 or num_rows == [0]:
            raise UsageError(
                "Passages, questions, options and labels must have the same "
                f"number of rows, at least one. Received: {num_rows} rows."
            )
        for number, options in enumerate(self.options):
            if len(options) != self.num_options:
                raise UsageError(
                    f"Question {number} has {len(options)} options, the first "
                    f"question {self.num_options}. Expected as many for all. "
                    f"Received: {list(options)}."
                )

    def __len__(self):
        return len(self.questions)

    @property
    def num_options(self) -> int:
        """Options of every question."""
        return len(self.options[0])

    def take(self, rows) -> "Questions":
        """Returns the rows with the given numbers, in the given order."""
        labels = None if self.labels is None else self.labels[np.asarray(rows)]
        return Questions(
            [self.passages[row] for row in rows],
            [self.questions[row] for row in rows],
            [self.options[row] for row in rows],
            labels,
        )


def encode_questions(
    examples: Questions, tokenizer, sequence_length: int, num_options: int
) -> EncodedExamples:
    """Tokenises questions, one sequence for each option.

    `[CLS] passage [SEP] question option [SEP]`, with the separators of the
    tokenizer's family. Where that is too long, the
    passage is cut at its end; where it has no room at all, the question loses
    its beginning.

    Args:
        examples: `Questions`.
        tokenizer: as in `encode`.
        sequence_length: int. Tokens of a sequence at most, special ones
            included.
        num_options: int. Options of every question that the model takes.

    Returns:
        `EncodedExamples` with `num_options` sequences per row. A row counts
        as cut if one of its sequences was.

    Raises:
        UsageError: if the questions have another number of options, or there
            is no room for text.
    """
    if examples.num_options != num_options:
        raise UsageError(
            f"The questions have {examples.num_options} options. Expected "
            f"{num_options}, as the task has it."
        )
    family = family_of(tokenizer)
    num_separators = family.num_separators if family else 1
    num_special = 2 + num_separators
    room = sequence_length - num_special
    if room < 1:
        raise UsageError(
            "`sequence_length` must leave room for text beside the "
            f"{num_special} special tokens. "
            f"Received: sequence_length={sequence_length}."
        )
    rows = [
        (passage, [f"{question} {option}" for option in options])
        for passage, question, options in zip(
            examples.passages, examples.questions, examples.options, strict=True
        )
    ]
    pieces = tokenize(
        [*examples.passages, *(tail for _, tails in rows for tail in tails)],
        tokenizer,
    )
    start, end = [tokenizer.start_token_id], [tokenizer.end_token_id]
    token_ids, lengths, first_lengths, truncated = [], [], [], set()
    separators = num_separators * end
    for row, (passage, tails) in enumerate(rows):
        for text in tails:
            head, tail = pieces[passage], pieces[text]
            if len(head) + len(tail) > room:
                truncated.add(row)
                tail = tail[-room:]
                head = head[: room - len(tail)]
            token_ids += [start, head, separators, tail, end]
            first_lengths.append(len(head) + 1 + num_separators)
            lengths.append(len(head) + len(tail) + num_special)
    positions = np.concatenate([np.arange(length) for length in lengths])
    return EncodedExamples(
        token_ids=np.concatenate(token_ids).astype("int32"),
        segment_ids=(positions >= np.repeat(first_lengths, lengths)).astype(
            "int32"
        ),
        lengths=np.array(lengths, "int32"),
        labels=examples.labels,
        sequence_length=sequence_length,
        num_truncated=len(truncated),
        pad_token_id=tokenizer.pad_token_id,
        sequences_per_row=num_options,
    )
