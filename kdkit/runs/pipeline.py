"""Chains of runs: each step trains on the steps before it, or is complete.

The settings of the last run contain the whole chain, so its `config.json` is
enough to repeat all of it:

- a distillation on a task: the pretrained encoder in `RUN/pretrained_run/`, the
  teacher in `RUN/teacher_run/`, the student's general distillation where its
  checkpoint is, the file of augmented examples, and the distillation in `RUN/`.
  LightPAFF for encoders is such a chain;
- a distillation on text, such as LightPAFF for decoders and encoder-decoders:
  its `steps_before` and the run itself.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from kdkit import training
from kdkit.recipes import pretraining
from kdkit.recipes.recipe import Recipe
from kdkit.recipes.stages import without_teacher
from kdkit.runs.directory import is_finished
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.settings import (
    FREE,
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.settings import override
from kdkit.training.data_settings import AugmentedSettings
from kdkit.training.model_settings import UPDATE, ModelSettings, model_settings
from kdkit.training.sentence_settings import PairSettings

RunSettings = (
    DistillSettings | PretrainSettings | TeacherSettings | EmbedderSettings
)
TITLES = {
    "pretrained": "the teacher on general text",
    "teacher": "the teacher on the task",
    "general": "the student on general text",
    "augmented": "augmented examples",
    "student": "the student on the task",
}
OF_EMBEDDERS = {
    "teacher": "the teacher",
    "student": "the sentence encoder",
}
LAST = "student"


@dataclasses.dataclass(frozen=True)
class Step:
    """A run of a pipeline, or its file of augmented examples.

    Args:
        name: string. A key of `TITLES`.
        settings: the run's settings; `AugmentedSettings` of a file.
        place: `pathlib.Path` of the run directory, or of the file.
    """

    name: str
    settings: RunSettings | AugmentedSettings
    place: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A chain of runs that ends with a student.

    A complete step does not run again. Its inputs are compared, by checksum,
    with the inputs that it would have now, and a difference is an error.

    Args:
        settings: `DistillSettings`, `PretrainSettings`, `TeacherSettings` or
            `EmbedderSettings` of the last run. Models that these describe by
            settings instead of a place are trained first.
        run_dir: string or path of the last run's directory.

    Example:

    ```python
    from kdkit.recipes import RECIPES
    from kdkit.runs.pipeline import Pipeline
    from kdkit.runs import smoke
    from kdkit.training import DistillSettings
    from kdkit.training import ModelSettings

    teacher = smoke.TEACHER  # TeacherSettings of a tiny model
    settings = DistillSettings(
        recipe="vanilla_kd",
        data=teacher.data,
        teacher=teacher,
        student=ModelSettings(copy_from="teacher", copy_layers=(1, 3)),
        stages=RECIPES["vanilla_kd"].stages,
        jit_compile=False,
    )
    pipeline = Pipeline(settings, "runs/pipeline")
    print([step.name for step in pipeline.steps])  # ["teacher", "student"]
    pipeline.run()
    ```
    """

    settings: RunSettings
    run_dir: str | pathlib.Path

    @property
    def steps(self) -> tuple[Step, ...]:
        """The `Step`s in their order; the last is the run itself."""
        references = self._references
        return (
            *(
                Step(
                    name,
                    made,
                    pathlib.Path(
                        references.get(name)
                        or place_of_step(self.run_dir, name)
                    ),
                )
                for name, made in self._before.items()
            ),
            Step(LAST, self.settings, pathlib.Path(self.run_dir)),
        )

    @property
    def _before(self):
        """The settings of the steps before the last run, by name."""
        found = getattr(self.settings, "steps_before", vars(self.settings))
        kinds = TeacherSettings | PretrainSettings | AugmentedSettings
        return {
            name: found[name]
            for name in TITLES
            if name != LAST and isinstance(found.get(name), kinds)
        }

    @property
    def _references(self):
        """The places where the last run expects the steps' results, by name."""
        last = self.settings
        if isinstance(last, TeacherSettings | EmbedderSettings):
            return {}
        if isinstance(last, DistillSettings):
            augmented = last.augmented and last.augmented.file
            return {"general": last.student.checkpoint, "augmented": augmented}
        places = {"teacher": last.teacher, "general": last.model.checkpoint}
        if "general" in last.steps_before:
            places["pretrained"] = last.steps_before["general"].teacher
        elif "teacher" in last.steps_before:
            model = last.steps_before["teacher"].model
            places["pretrained"] = model.checkpoint
        return places

    @property
    def given(self) -> dict[str, str]:
        """The places of the models that replace steps on text, by step."""
        return {
            name: place
            for name, place in self._references.items()
            if place is not None and name not in self._before
        }

    def run(
        self, force: bool = False, findings=None, needs_models: bool = True
    ) -> None:
        """Runs the steps that are not complete, in their order.

        Args:
            force: bool. Whether to continue if a check before the runs reports
                an error. Defaults to `False`.
            findings: `kdkit.doctor.Findings` of earlier checks, or `None` to
                check now. Defaults to `None`.
            needs_models: bool. Whether a complete run whose model was removed
                trains again. Defaults to `True`.

        Raises:
            UsageError: (a `ValueError`) for the user's mistakes, and if a step
                was made from other inputs.
            RunError: if a check reports an error, or a loss is not finite.
        """
        if isinstance(self.settings, TeacherSettings):
            training.train_teacher(self.settings, self.run_dir, force=force)
        elif isinstance(self.settings, PretrainSettings):
            training.pretrain(
                self.settings, self.run_dir, findings, needs_models, force
            )
        else:
            training.distill(self.settings, self.run_dir, force, needs_models)

    def moved(self, run_dir) -> "Pipeline":
        """Returns the same chain on text in another run directory.

        Args:
            run_dir: string or path. The chain's own steps are in it.
        """
        places = {
            str(step.place): str(place_of_step(run_dir, step.name))
            for step in self.steps[:-1]
        }

        def move(settings):
            model = settings.model
            checkpoint = places.get(model.checkpoint, model.checkpoint)
            return dataclasses.replace(
                settings,
                model=dataclasses.replace(model, checkpoint=checkpoint),
                teacher=places.get(settings.teacher, settings.teacher),
            )

        before = {name: move(one) for name, one in self._before.items()}
        last = dataclasses.replace(move(self.settings), steps_before=before)
        return Pipeline(last, run_dir)

    def with_values(self, assignments: Sequence[str]) -> "Pipeline":
        """Returns the chain on text with some settings changed.

        Args:
            assignments: sequence of `dotted.field=value`, as
                `kdkit.settings.override` takes them. A field that begins with a
                step's name belongs to that step, others to the last run.

        Raises:
            UsageError: for unknown fields and values of a wrong type.
        """
        fields = []
        for assignment in assignments:
            name = assignment.split(".")[0]
            if name in TITLES and name != LAST and "." in assignment:
                assignment = f"steps_before.{assignment}"
            fields.append(assignment.removeprefix(f"{LAST}."))
        return Pipeline(override(self.settings, fields), self.run_dir)

    def with_shared_settings(self) -> "Pipeline":
        """Returns the chain on text with settings of the last run in all runs.

        All runs share the sequence length, precision, compilation, devices and
        the saving of checkpoints. The student's runs share a seed.
        """
        last = self.settings
        same = {
            name: getattr(last, name)
            for name in ("dtype_policy", "jit_compile", "strategy", *FREE)
        }
        length = last.corpus.sequence_length
        before = {
            name: dataclasses.replace(
                settings,
                corpus=dataclasses.replace(
                    settings.corpus, sequence_length=length
                ),
                seed=last.seed if name == "general" else settings.seed,
                **same,
            )
            for name, settings in last.steps_before.items()
        }
        last = dataclasses.replace(last, steps_before=before)
        return Pipeline(last, self.run_dir)


def place_of_step(run_dir, name: str) -> pathlib.Path:
    """Returns the default directory of a step."""
    return pathlib.Path(run_dir, f"{name}_run")


def known_sizes(settings: DistillSettings) -> ModelSettings:
    """Returns the student, by its sizes before general distillation has run."""
    student = settings.student
    if settings.general is not None and not is_finished(student.checkpoint):
        return settings.general.model
    return student


def language_model_pipeline(
    recipe: Recipe,
    run_dir,
    general_text,
    task_text,
    teacher: ModelSettings | None = None,
    student: ModelSettings | None = None,
    given: Mapping[str, str] | None = None,
    caches: Mapping[str, object] | None = None,
    first_stages=None,
    teacher_stages=None,
    **first,
) -> Pipeline:
    """Returns the four steps of a recipe on text alone, such as LightPAFF.

    The teacher on general text, the teacher on the task's text, the student on
    general text with the first teacher, and the student on the task's text with
    the second.

    Args:
        recipe: `Recipe` of a decoder or an encoder-decoder, with two stages.
        run_dir: string or path of the last run's directory.
        general_text: `CorpusSettings` or `SentenceSettings`.
        task_text: `CorpusSettings` or `PairSettings`.
        teacher: `ModelSettings` that the first step begins with. Omit it if
            that step is given.
        student: `ModelSettings`. Defaults to the recipe's.
        given: mapping from `"pretrained"`, `"teacher"` or `"general"` to the
            place of a model that replaces the step. Optional.
        caches: mapping from `"general"` or `"student"` to `CacheSettings`.
            Optional.
        first_stages: tuple of `Stage` for the first step. Defaults to the
            stages of `kdkit pretrain`.
        teacher_stages: tuple of `Stage` for the second step. Defaults to the
            stages of `kdkit pretrain`, or for decoders to the recipe's stages
            without the teacher.
        **first: further settings of the first step, such as
            `vocabulary_size`. `jit_compile` applies to all steps.

    Raises:
        UsageError: if the settings do not fit together.
    """
    given, caches = given or {}, caches or {}
    on_general, on_task = recipe.stages
    student = student or model_settings(recipe.student)
    reads_sentences = isinstance(task_text, PairSettings)
    if reads_sentences:
        first_stages = first_stages or pretraining.FROM_SCRATCH
        teacher_stages = teacher_stages or pretraining.PAIRS
    first_stages = first_stages or pretraining.STAGES
    teacher_stages = teacher_stages or (without_teacher(on_task),)
    # Batches of sentences have many shapes.
    jit_compile = first.pop("jit_compile", UPDATE if reads_sentences else True)
    places = {
        name: given.get(name) or str(place_of_step(run_dir, name))
        for name in ("pretrained", "teacher", "general")
    }

    def step(corpus, model, stages, **more):
        return PretrainSettings(
            corpus=corpus,
            model=model,
            stages=stages,
            jit_compile=jit_compile,
            **more,
        )

    def taught(name, corpus, model, stage, teacher):
        return step(
            corpus,
            model,
            (stage,),
            teacher=places[teacher],
            recipe=recipe.name,
            cache=caches.get(name),
        )

    before = {}
    made = {name for name in places if name not in given}
    if "pretrained" in made and made & {"teacher", "general"}:
        before["pretrained"] = step(
            general_text, teacher, first_stages, **first
        )
    if "teacher" in made:
        before["teacher"] = step(
            task_text,
            ModelSettings(checkpoint=places["pretrained"]),
            teacher_stages,
        )
    if "general" in made:
        before["general"] = taught(
            "general", general_text, student, on_general, "pretrained"
        )
    last = taught(
        LAST,
        task_text,
        ModelSettings(checkpoint=places["general"]),
        on_task,
        "teacher",
    )
    return Pipeline(dataclasses.replace(last, steps_before=before), run_dir)
