"""The stages of a distillation that are on running text."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.distillation.distiller import Distiller
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.models import LoadedModel
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import Saving
from kdkit.training.distribution import Distribution
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_length
from kdkit.training.making import load_text_teacher
from kdkit.training.stage_trainer import Arm
from kdkit.training.text_data import load_text
from kdkit.training.text_data import require_readable


@dataclasses.dataclass(frozen=True, eq=False)
class CorpusStages:
    """The stages on a corpus, ready to run.

    Args:
        settings: `DistillSettings`.
        stages: dict from arm to its `Stage`s on the corpus.
        teacher: `LoadedModel` of a masked-language model, or `None` where no
            stage has objectives.
        tokenizer: the tokenizer of teacher and student.
        directory: `pathlib.Path`. Where the packed text is kept.
        distribution: `Distribution`.
    """

    settings: DistillSettings
    stages: dict
    teacher: LoadedModel | None
    tokenizer: object
    directory: pathlib.Path
    distribution: Distribution

    def run(self, run, arm_name, model) -> None:
        """Trains a classifier's encoder, under a head for masked tokens."""
        if not self.stages[arm_name]:
            return
        with self.distribution.scope():
            language_model = models.language_model(models.backbone_of(model))
        with self.distribution.chief_first():
            source = load_text(
                self.settings.corpus,
                self.tokenizer,
                self.directory,
                language_model,
            )
        arm = Arm(
            name=arm_name,
            model=language_model,
            teacher=self.teacher.model if self.teacher else None,
            source=source,
            seed=self.settings.seed,
            jit_compile=self.settings.jit_compile,
            distribution=self.distribution,
            saving=Saving.of(self.settings),
        )
        with models.frozen_pooler(models.backbone_of(model)):
            arm.run(run, self.stages[arm_name])


def prepare_corpus_stages(
    settings: DistillSettings,
    student,
    tokenizer,
    pretrained,
    directory,
    distribution: Distribution,
) -> CorpusStages:
    """Checks the stages on a corpus, and loads their teacher.

    Args:
        settings: `DistillSettings`.
        student: a classifier of the student's sizes.
        tokenizer: the tokenizer of the task's teacher.
        pretrained: where the pretrained encoder is, or `None`.
        directory: `pathlib.Path`. Where the packed text will be kept.
        distribution: `Distribution` in whose scope this is called.

    Raises:
        UsageError: with all that does not fit.
    """
    stages = {
        name: tuple(stage for stage in stages if stage.data == "corpus")
        for name, stages in settings.arms.items()
    }
    teacher = None
    if any(stages.values()):
        with all_mistakes() as check:
            with check():
                settings.corpus.check()
            with check():
                require_readable(settings.corpus, student)
            with check():
                _check_encoder(student)
                check_length(
                    settings.corpus.sequence_length, student, CORPUS_LENGTH
                )
            if any(stage.objectives for stage in stages["student"]):
                with check():
                    teacher = _load_teacher(pretrained, tokenizer)
                    _check_fit(teacher, student, stages["student"])
    return CorpusStages(
        settings, stages, teacher, tokenizer, directory, distribution
    )


def _check_encoder(student):
    if not models.has_encoder(student):
        raise UsageError(
            "Stages on a corpus train an encoder with a head for masked "
            "tokens. Received: a student without one, a BiLSTM. Leave these "
            "stages out with --stages, or use a transformer."
        )


def _load_teacher(source, tokenizer) -> LoadedModel:
    """Loads a masked-language model that shares the task's vocabulary."""
    teacher = load_text_teacher(source, needs_head=True)
    if teacher.tokenizer.get_vocabulary() != tokenizer.get_vocabulary():
        raise UsageError(
            f"The pretrained encoder in {source} and the task's teacher do not "
            "share their vocabulary. Use the encoder that the teacher was "
            "fine-tuned from."
        )
    models.check_same_ids(teacher.tokenizer, tokenizer)
    return teacher


def _check_fit(teacher, model, stages) -> None:
    """Builds what the stages will build, so that what does not fit is told."""
    with all_mistakes() as check:
        for stage in stages:
            if stage.objectives:
                with check():
                    Distiller(
                        teacher.model,
                        models.language_model(models.backbone_of(model)),
                        stage.weighted_objectives(),
                        stage.label_weight,
                        chunk_size=stage.chunk_size,
                    )
