"""Metrics beside those of the stages, measured and logged once."""

from kdkit.training.evaluation import Evaluator
from kdkit.training.evaluation import predict_logits
from kdkit.training.run_log import format_metrics
from kdkit.training.run_log import log_model


def evaluate_teachers(run, task, teachers, forwards, dev, split):
    """Evaluates teachers once and logs it; returns the students' evaluator.

    Agreement is measured with the first of them. The others are logged as
    `teacher_2` and so on. `forwards` are the teachers' forward passes.
    """
    all_logits = []
    for number, (teacher, forward) in enumerate(
        zip(teachers, forwards, strict=True), start=1
    ):
        arm = "teacher" if number == 1 else f"teacher_{number}"
        logits = predict_logits(forward, dev)
        metrics = task.compute_metrics(dev.targets, logits)
        if not _evaluated(run, arm, split):
            run.log(
                "evaluation",
                arm=arm,
                stage=None,
                epoch=None,
                split=split,
                examples=len(dev),
                metrics=metrics,
                agreement=None,
                collapsed=task.kind.collapse(dev.targets, logits),
            )
        log_model(run, arm, teacher.model)
        print(
            f"{arm.replace('_', ' ')}: {format_metrics(metrics)} on {split}.",
            flush=True,
        )
        all_logits.append(logits)
    return Evaluator(task, dev, split, tuple(all_logits))


def evaluate_other(run, arm, best, evaluator):
    """Measures the weights with which an arm ended on another dev split."""
    if run.is_read_only or _evaluated(run, arm.name, evaluator.split):
        return
    evaluation = evaluator(arm.forward)
    run.log(
        "evaluation",
        arm=arm.name,
        stage=best["stage"],
        epoch=best["epoch"],
        **evaluation,
    )
    print(
        f"{arm.name}: {format_metrics(evaluation['metrics'])} on "
        f"{evaluator.split}.",
        flush=True,
    )


def _evaluated(run, arm, split):
    return any(
        (event["arm"], event.get("split")) == (arm, split)
        for event in run.events("evaluation")
    )
