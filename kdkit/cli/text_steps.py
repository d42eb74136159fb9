"""The steps of a recipe on text alone: runs of pretraining, in their order."""

import dataclasses
import pathlib

from kdkit import training
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.sentence_settings import PairSettings

TITLES = {
    "pretrained": "the teacher on --corpus",
    "teacher": "the teacher on {text}",
    "general": "the student on --corpus, with the first teacher",
    "student": "the student on {text}, with the second teacher",
}


@dataclasses.dataclass(frozen=True)
class Steps:
    """The runs in their order; `None` where there is a checkpoint.

    Args:
        pretrained: `PretrainSettings` or `None`. The teacher on general text.
        teacher: `PretrainSettings` or `None`. It goes on with the task's.
        general: `PretrainSettings` or `None`. The student on general text.
        student: `PretrainSettings`. It goes on with the task's.
    """

    pretrained: PretrainSettings | None
    teacher: PretrainSettings | None
    general: PretrainSettings | None
    student: PretrainSettings

    def runs(self) -> dict[str, PretrainSettings]:
        """What is to be run, in order, by the name of the step."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is not None
        }


def run_steps(steps: Steps, run_dir, findings=None) -> None:
    """Runs steps in their order, those that are not done yet.

    Args:
        steps: `Steps`.
        run_dir: string or path of the last one's run directory.
        findings: `kdkit.doctor.Findings` of the checks before them, to be
            logged, or `None`. Defaults to `None`.

    Raises:
        UsageError: for the user's mistakes.
        RunError: if a loss is not finite.
    """
    runs = steps.runs()
    text = "--task-text"
    if isinstance(steps.student.corpus, PairSettings):
        text = "--pairs"
        if steps.student.corpus.languages:
            text += f", {' to '.join(steps.student.corpus.languages)}"
    before = {name: runs[name] for name in runs if name != "student"}
    for number, (name, settings) in enumerate(runs.items(), start=1):
        print(
            f"Step {number} of {len(runs)}: {TITLES[name].format(text=text)}.",
            flush=True,
        )
        if name == "student":
            settings = dataclasses.replace(settings, steps_before=before)
            training.pretrain(settings, run_dir, findings)
        else:
            training.pretrain(settings, made(run_dir, name), findings)


def made(run_dir, name) -> pathlib.Path:
    """Where a step's run is that one command makes with the last one."""
    return pathlib.Path(run_dir) / f"{name}_run"
