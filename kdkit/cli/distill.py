"""Trains a student from a fine-tuned teacher by a recipe.

The student is left in RUN/student/, a keras-hub preset directory. The same
command goes on with a run that was stopped.

example:
  kdkit distill tinybert --task sst2 --data-dir glue \
      --teacher runs/teacher --control --run-dir runs/tinybert
  kdkit distill lightpaff --task sst2 --data-dir glue --corpus wiki.txt \
      --encoder bert_base_en_uncased --run-dir runs/lightpaff
  kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb \
      --run-dir runs/lightpaff_gpt2
  kdkit distill lightpaff --model mass --decoder mass_6_layer \
      --vocabulary-size 32000 --corpus train.en train.de --languages en de \
      --pairs train.en train.de --task-held-out val.en val.de \
      --run-dir runs/lightpaff_en_de
  kdkit distill --config runs/tinybert/config.json --run-dir runs/again
"""

import dataclasses
import pathlib

from kdkit.cli import options as shared
from kdkit.cli.options import given_flags
from kdkit.cli.options import is_on_text
from kdkit.cli.options import located
from kdkit.cli.options import settings_of
from kdkit.cli.text_steps import Steps
from kdkit.cli.text_steps import made
from kdkit.cli.text_steps import run_steps
from kdkit.doctor import text_examination
from kdkit.errors import UsageError
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.settings import override


def add_arguments(parser):
    add_whole_distillation(parser, nargs="?")
    shared.add_force(parser)
    shared.add_run(parser)


def add_whole_distillation(parser, nargs=None):
    """Adds what says what is made, before it and beside it included.

    Args:
        parser: `argparse.ArgumentParser`.
        nargs: of the recipe; `"?"` where --config may name it.
    """
    add_distillation(parser, nargs)
    parser.add_argument(
        "--encoder",
        metavar="MODEL",
        help="in place of --teacher: fine-tune this pretrained encoder on the "
        "task first, in RUN/teacher_run; and where the recipe learns from it "
        "on --corpus, pretrain it there before, in RUN/pretrained_run; both "
        "with seed 0, and change with --set teacher.… and pretrained.…",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="also train the same student on the labels alone, for the same "
        "number of updates",
    )
    add_decoder(parser)


def add_decoder(parser):
    """Adds what a recipe for a decoder is told."""
    group = parser.add_argument_group(
        "decoders and encoder-decoders",
        "Each step is a run of kdkit pretrain:\n"
        "  RUN/pretrained_run  the teacher on --corpus\n"
        "  RUN/teacher_run     the teacher on --task-text or --pairs\n"
        "  RUN/general_run     the student on --corpus\n"
        "  RUN                 the student on --task-text or --pairs\n"
        "--pretrained, --teacher and --general give what a step would make.\n"
        "--set pretrained.…, teacher.… and general.… are of these steps,\n"
        "other fields of the last.",
    )
    group.add_argument(
        "--model",
        metavar="FAMILY",
        default="bert",
        help="bert for encoders (default), a decoder (gpt2, llama3) or mass",
    )
    group.add_argument(
        "--decoder",
        metavar="MODEL",
        help="the teacher to pretrain: a preset with random weights (see kdkit "
        "list), or a model to go on with",
    )
    group.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="for a --decoder with random weights: where its tokenizer is, a "
        "run, a preset directory or, for GPT-2, a vocabulary of byte pairs "
        "(vocab.json, encoder.json)",
    )
    group.add_argument(
        "--vocabulary-size",
        type=int,
        metavar="N",
        help="in place of --tokenizer: train one of so many tokens on --corpus",
    )
    group.add_argument(
        "--task-text",
        nargs="+",
        metavar="FILE",
        help="for decoders: the text that the student is to be good at",
    )
    group.add_argument(
        "--task-held-out",
        nargs="+",
        metavar="FILE",
        help="text or pairs to measure that on; unless set, every 100th of "
        "--task-text or --pairs",
    )
    shared.add_benchmark_text(group)
    shared.add_sentences(group)


def add_distillation(parser, nargs=None):
    """Adds what says what is distilled from what, by which recipe."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs=nargs,
        help="see kdkit list" + ("; that of --config unless set" * bool(nargs)),
    )
    shared.add_task(parser)
    parser.add_argument(
        "--teacher",
        nargs="+",
        metavar="MODEL",
        help="a run of train-teacher, a preset directory of a classifier, or "
        "a .keras file; several with the same tokenizer teach together",
    )
    parser.add_argument(
        "--teacher-weights",
        nargs="+",
        type=float,
        metavar="W",
        help="how much each of several teachers counts; the same unless set",
    )
    parser.add_argument(
        "--student",
        metavar="MODEL",
        help="a student preset (see kdkit list), or a checkpoint to start "
        "from; unless set, the recipe's",
    )
    parser.add_argument(
        "--num-layers",
        type=int,
        metavar="N",
        help="blocks of a student made of an encoder's own; half of them "
        "unless set",
    )
    parser.add_argument(
        "--pretrained",
        metavar="MODEL",
        help="the encoder whose blocks those are, and the teacher on a corpus; "
        "the one that the teacher was fine-tuned from unless set",
    )
    parser.add_argument(
        "--word-vectors",
        metavar="FILE",
        help="the text file of vectors, such as glove.6B.300d.txt, that the "
        "embeddings of a BiLSTM start from; random unless set",
    )
    shared.add_corpus(parser)
    # Of models on text alone.
    parser.set_defaults(
        one_document=None,
        detokenizer=None,
        pairs=None,
        pair_columns=None,
        languages=None,
    )
    parser.add_argument(
        "--general",
        metavar="RUN",
        help="the student starts from this run of kdkit pretrain --recipe; "
        "with --corpus it is made there if it is not finished",
    )
    shared.add_unlabeled(parser)
    parser.add_argument(
        "--augment",
        metavar="FILE.tsv",
        help="train on these copies too, as kdkit augment writes them",
    )
    parser.add_argument(
        "--augment-model",
        metavar="MODEL",
        help="make that file if it is not there, with this masked-language "
        "model, a run of kdkit pretrain",
    )
    parser.add_argument(
        "--augment-vectors",
        metavar="FILE",
        help="and these word vectors, as kdkit augment --word-vectors",
    )
    shared.add_cache(parser)
    shared.add_teacher_file(parser)
    parser.add_argument(
        "--stages",
        nargs="+",
        metavar="NAME",
        help="only these stages of the recipe",
    )
    parser.add_argument(
        "--parity",
        help="a variant of the recipe, see kdkit show RECIPE",
    )


def run(options):
    from kdkit import training
    from kdkit.cli import resolving
    from kdkit.cli import text_steps
    from kdkit.cli.options import is_on_text
    from kdkit.runs import first_checks

    if options.recipe is None:
        complete(options)
    if options.config is not None and is_on_text(options.config):
        text_steps.reject_for_encoders(options)
        distill_on_text_again(options)
        return
    if options.model != "bert":
        recipe = resolving.get_recipe(options.recipe)
        text_steps.distill_on_text(recipe, options)
        return
    text_steps.reject_for_encoders(options)
    settings = resolving.distill_settings(options)
    first_checks.check_first(settings, options.run_dir)
    training.distill(settings, options.run_dir, options.force)


OVERRULED = (
    "recipe", "task", "data_dir", "teacher", "student", "pretrained", "corpus",
    "column", "held_out", "general", "mixed_precision", "strategy",
)  # fmt: skip


def complete(options) -> None:
    """Takes the recipe from `--config` where none is named.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`;
            gets the recipe.

    Raises:
        UsageError: if there is no `--config`, or it is of another verb.
    """
    if options.config is None:
        raise UsageError(
            "Missing: RECIPE (see kdkit list), or --config, the config.json of "
            "a run to make again."
        )
    if not is_on_text(options.config):
        options.recipe = settings_of(DistillSettings, options.config).recipe


def distill_on_text_again(options) -> None:
    """Makes all steps of a recipe again, in and beside another run directory.

    Args:
        options: the parsed options of `kdkit distill`, with `config`.

    Raises:
        UsageError: for the user's mistakes.
        RunError: if a run would be ruined, or a loss is not finite.
    """
    steps = repeated_steps(options)
    findings = text_examination.examine_first(
        text_steps(steps, options.run_dir), options.force
    )
    run_steps(steps, options.run_dir, findings)


def text_steps(steps: Steps, run_dir) -> "text_examination.TextSteps":
    """Returns steps as the doctor takes them.

    Args:
        steps: `Steps`.
        run_dir: string or path of the last one's run directory.
    """
    return text_examination.TextSteps(
        steps.runs(), _given(steps), pathlib.Path(run_dir)
    )


def repeated_steps(options) -> Steps:
    """The steps of a run, with `--seed` and `--set` applied.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`, with
            `config`.

    Raises:
        UsageError: for options that clash, and if a setting is unknown or of
            the wrong type.
    """
    given = given_flags(options, OVERRULED)
    if given:
        raise UsageError(
            f"{', '.join(given)} cannot stand beside --config, which decides "
            "that already. Leave it out, or change settings with --set."
        )
    last = settings_of(PretrainSettings, options.config)
    before = last.steps_before
    names = [field.name for field in dataclasses.fields(Steps)]
    steps = {name: before.get(name) for name in names}
    steps["student"] = dataclasses.replace(last, steps_before={})
    if options.seed is not None:  # as the steps of the student have it
        for name in ("general", "student"):
            if steps[name] is not None:
                steps[name] = dataclasses.replace(
                    steps[name], seed=options.seed
                )
    places = {
        name: str(made(located(options.run_dir), name)) for name in before
    }
    for name, model, teacher in (
        ("teacher", "pretrained", None),
        ("general", None, "pretrained"),
        ("student", "general", "teacher"),
    ):
        if steps[name] is not None:
            steps[name] = _moved(
                steps[name], places.get(model), places.get(teacher)
            )
    return override(
        Steps(**steps),
        [
            field if field.split(".")[0] in names else f"student.{field}"
            for field in options.set
        ],
    )


def _given(steps):
    """Where models are that stand for steps, by the step."""
    student, general, teacher = steps.student, steps.general, steps.teacher
    places = {"teacher": student.teacher, "general": student.model.checkpoint}
    if general is not None:
        places["pretrained"] = general.teacher
    elif teacher is not None:
        places["pretrained"] = teacher.model.checkpoint
    return {
        name: place
        for name, place in places.items()
        if place is not None and getattr(steps, name) is None
    }


def _moved(settings, model, teacher):
    """A step whose model and teacher are where they are made this time."""
    if model is not None:
        start = dataclasses.replace(settings.model, checkpoint=model)
        settings = dataclasses.replace(settings, model=start)
    if teacher is not None:
        settings = dataclasses.replace(settings, teacher=teacher)
    return settings
