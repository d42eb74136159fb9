"""The stages of a run as they are without its teacher."""

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

    Stages on the task become one, on the labels alone. Its batch size is that
    of the first of them, so that the number of updates is the same where they
    share a batch size, and its learning rate that of the last, which teaches
    answers too: a rate that suits states may be far too high for labels. Stages
    on a corpus stay, without their objectives.
    """
    on_corpus = tuple(
        without_teacher(stage) for stage in stages if stage.data == "corpus"
    )
    stages = tuple(stage for stage in stages if stage.data == "task")
    if not stages:
        return on_corpus
    first, last = stages[0], stages[-1]
    return (
        *on_corpus,
        Stage(
            name="fine_tuning",
            epochs=sum(stage.epochs for stage in stages),
            learning_rate=last.learning_rate,
            hard_label_weight=1.0,
            schedule="linear",
            weight_decay=last.weight_decay,
            batch_size=first.batch_size,
            gradient_accumulation_steps=first.gradient_accumulation_steps,
            label_smoothing=last.label_smoothing,
            average_last=last.average_last,
            keep_best=last.keep_best,
            optimizer=last.optimizer,
        ),
    )
