"""Stages of the same student without what it learned from."""

import dataclasses

from kdkit.training.stages import Stage


def without_teacher(stage: Stage) -> Stage:
    """The stage on the labels alone, or on the masked tokens."""
    return dataclasses.replace(
        stage,
        objectives=(),
        soft_label_weight=None,
        hard_label_weight=1.0,
        chunk_size=None,
    )


def same_number_of_updates(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The control arm: no teacher, for as many epochs as the stages have.

    Stages on the task become one, on the labels alone. Its batch size and
    learning rate are those of the first of them, so that the number of updates
    is the same where they share a batch size. Stages on a corpus stay, without
    their objectives.
    """
    on_corpus = tuple(
        without_teacher(stage) for stage in stages if stage.data == "corpus"
    )
    stages = tuple(stage for stage in stages if stage.data == "task")
    if not stages:
        return on_corpus
    first = stages[0]
    return (
        *on_corpus,
        Stage(
            name="fine_tuning",
            epochs=sum(stage.epochs for stage in stages),
            learning_rate=first.learning_rate,
            hard_label_weight=1.0,
            schedule="linear",
            weight_decay=first.weight_decay,
            batch_size=first.batch_size,
            label_smoothing=stages[-1].label_smoothing,
            average_last=stages[-1].average_last,
            keep_best=stages[-1].keep_best,
        ),
    )


def with_more_epochs(
    stages: tuple[Stage, ...], factor: float
) -> tuple[Stage, ...]:
    """The stages for so many times as many epochs.

    A control without the unlabelled rows of the student has as many updates
    with them.
    """
    return tuple(
        dataclasses.replace(stage, epochs=round(factor * stage.epochs))
        for stage in stages
    )
