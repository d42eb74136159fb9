"""Runs any kind of settings, from the first check to a complete directory."""

import logging
import tempfile

from kdkit import models
from kdkit.augmentation.run import prepare_copies
from kdkit.models.heads import frozen_pooler
from kdkit.runs.directory import open_run
from kdkit.runs.embedder_parts import EmbedderParts
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.inputs import is_finished_with, log_inputs, require_same_inputs
from kdkit.runs.log import (
    ArmLog,
    evaluate_other,
    finish,
    log_caches,
    log_findings,
)
from kdkit.runs.multilingual_parts import MultilingualParts
from kdkit.runs.pipeline import OF_EMBEDDERS, TITLES, Pipeline
from kdkit.runs.provenance import provenance
from kdkit.runs.ranker_parts import RankerParts
from kdkit.runs.settings import (
    DistillSettings,
    PretrainSettings,
    Saving,
    TeacherSettings,
)
from kdkit.runs.static_start import StaticParts
from kdkit.runs.task_parts import DistillParts, TeacherParts
from kdkit.runs.text_parts import PretrainParts
from kdkit.settings import to_dict
from kdkit.training.arm import Arm
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import training_on

_log = logging.getLogger(__name__)
EMBEDDER_PARTS = {
    "texts": EmbedderParts,
    "translations": MultilingualParts,
    "candidates": RankerParts,
}


def parts_of_embedder(settings: EmbedderSettings, place, pretrained=None):
    """The parts of a sentence encoder's run, by its data and student."""
    cls = EMBEDDER_PARTS[settings.data.stage_data]
    if cls is EmbedderParts and settings.student.static is not None:
        cls = StaticParts
    return cls(settings, place, pretrained)


PARTS = {
    TeacherSettings: TeacherParts,
    DistillSettings: DistillParts,
    PretrainSettings: PretrainParts,
    EmbedderSettings: parts_of_embedder,
}


def train_teacher(
    settings: TeacherSettings, run_dir, pretrained=None, force: bool = False
) -> None:
    """Fine-tunes a model and saves it in `RUN/teacher/`.

    Args:
        settings: `TeacherSettings`.
        run_dir: string or path of a new or a started run directory.
        pretrained: place of the encoder that the settings call `"pretrained"`,
            or `None`. Defaults to `None`.
        force: as in `distill`. Defaults to `False`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if a check of the data reports an error, or a loss is not
            finite.
    """
    _run(settings, run_dir, force, pretrained=pretrained)


def distill(
    settings: DistillSettings | EmbedderSettings,
    run_dir,
    force: bool = False,
    needs_models: bool = True,
) -> None:
    """Runs a recipe and saves its student in `RUN/student/`.

    With a control, the same student trained without a teacher is saved in
    `RUN/control/`. Models that the settings describe by settings are trained
    first, see `kdkit.runs.Pipeline`. The doctor checks the run's inputs before
    that, see docs/doctor.md.

    Args:
        settings: `DistillSettings`, or `EmbedderSettings` for a sentence
            encoder.
        run_dir: string or path of a new or a started run directory.
        force: bool. Whether to continue if a check reports an error. Defaults
            to `False`.
        needs_models: bool. Whether a complete run whose model was removed
            trains again. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if a check reports an error, or a loss is not finite.
    """
    _run(settings, run_dir, force, needs_models=needs_models)


def pretrain(
    settings: PretrainSettings,
    run_dir,
    findings=None,
    needs_models: bool = True,
    force: bool = False,
) -> None:
    """Trains a language model on text, after its `steps_before`.

    With a teacher the model is saved in `RUN/student/`, otherwise an encoder in
    `RUN/encoder/`, a decoder in `RUN/decoder/` and an encoder-decoder in
    `RUN/encoder_decoder/`. Its head is saved with it, except where the stages
    compare encoders alone, as in TinyBERT's general distillation.

    Args:
        settings: `PretrainSettings`.
        run_dir: string or path of a new or a started run directory.
        findings: `kdkit.doctor.Findings` of earlier checks, which are logged,
            or `None` to count unknown words here. Defaults to `None`.
        needs_models, force: as in `distill`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if half of the texts contain unknown words, or a loss is not
            finite.
    """
    _run(settings, run_dir, force, findings, needs_models)


def _run(
    settings, run_dir, force, findings=None, needs_models=True, pretrained=None
):
    """Runs the steps before a run, builds its parts and trains its models."""
    parts = PARTS[type(settings)](settings, run_dir, pretrained)
    with (
        training_on(settings) as parts.distribution,
        open_run(
            run_dir, to_dict(settings), type(settings), parts.distribution
        ) as run,
    ):
        distribution = parts.distribution
        if is_finished_with(run, parts.inputs, distribution, needs_models):
            run.note_moved_models(to_dict(settings))
            return
        made = run.made_arms  # these models exist, when others were removed
        *before, last = Pipeline(settings, run_dir).steps
        needed = [step for step in before if parts.needs(step.name)]
        if findings is None:
            findings = parts.check(run, force, bool(needed))
        if needed:
            run.write_config(to_dict(settings), provenance())
        for step in needed:
            _make(step, before, parts, force, findings)
        parts.build()
        if findings is None:
            findings = parts.examine(run, force)
        for step in before:
            if step not in needed:
                _make(step, before, parts, force, findings)
        if before:
            is_embedder = isinstance(settings, EmbedderSettings)
            _announce(last, before, is_embedder)
        inputs = parts.inputs()
        require_same_inputs(run, inputs, distribution)
        run.note_moved_models(to_dict(settings))
        # Before reading the data: only a run directory may hold the files that
        # reading writes.
        run.write_config(to_dict(settings), provenance())
        with distribution.chief_first():
            parts.load(run)
        parts.open_caches()
        log_inputs(run, inputs)
        log_findings(run, findings)
        parts.measure(run)
        best = {
            name: made[name] if name in made else _train(run, parts, name)
            for name in parts.arms
        }
        log_caches(run, parts.caches)
        finish(run, best)


def _announce(step, before, is_embedder=False):
    number = before.index(step) if step in before else len(before)
    title = (OF_EMBEDDERS if is_embedder else TITLES)[step.name]
    _log.info(
        f"Step {number + 1} of {len(before) + 1}: {title}, in {step.place}."
    )


def _make(step, before, parts, force, findings):
    """Runs a step before the last, unless it is complete."""
    is_embedder = isinstance(parts.settings, EmbedderSettings)
    _announce(step, before, is_embedder)
    if isinstance(step.settings, TeacherSettings):
        train_teacher(step.settings, step.place, parts.pretrained, force)
    elif isinstance(step.settings, PretrainSettings):
        pretrain(step.settings, step.place, findings, force=force)
    else:
        data_dir = parts.settings.data.data_dir
        with parts.distribution.chief_first():
            prepare_copies(step.settings, parts.task, data_dir)


def _train(run, parts, name):
    """Trains, measures and saves a model; returns its best epoch."""
    settings, log = parts.settings, ArmLog(run, name)
    for leg in parts.legs(run, name):
        arm = Arm(
            name=name,
            model=leg.model,
            teacher=leg.teachers,
            source=leg.source,
            seed=settings.seed,
            jit_compile=settings.jit_compile,
            teacher_weights=leg.teacher_weights,
            caches=leg.caches,
            distribution=parts.distribution,
            checkpoint_minutes=Saving.of(settings).checkpoint_minutes,
            measured=leg.measured,
        )
        if leg.on_text:
            with frozen_pooler(models.backbone_of(leg.model)):
                best = arm.run(log, leg.stages)
        else:
            best = arm.run(log, leg.stages)
    for evaluator in parts.others:
        evaluate_other(run, arm, best, evaluator)
    parts.save(run, name, arm.result)
    parts.note_answers(run, arm)
    return best


def fill_cache(
    settings: DistillSettings, part: tuple[int, int] | None = None
) -> TeacherCaches:
    """Caches the teachers' outputs on all examples of a distillation.

    Args:
        settings: `DistillSettings` with `cache`.
        part: tuple of two ints `(i, n)` or `None`. Only part `i`, from 0, of
            `n` parts of the examples. Defaults to `None`, all examples.

    Returns:
        The `TeacherCaches`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if the disk has too little free space.
    """
    with tempfile.TemporaryDirectory() as folder:
        parts = DistillParts(settings, folder)
        parts.build(on_task_alone=True)
        if settings.augmented is not None:
            data_dir = settings.data.data_dir
            prepare_copies(settings.augmented, parts.task, data_dir)
        parts.open_caches(part)
        parts.fill_cache()
        return parts.caches
