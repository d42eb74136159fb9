"""LightPAFF's four steps on text alone: runs of pretraining, one in another.

Text is all that a decoder or an encoder-decoder learns from, so each step is a
run of `kdkit pretrain`: the teacher on general text, the teacher on the task's,
the student from the one on general text, the student from the other on the
task's.
"""

import argparse
import dataclasses
import pathlib

from kdkit import models
from kdkit import training
from kdkit.cli.choosing import corpus_settings
from kdkit.cli.options import absolute
from kdkit.cli.options import check_sides
from kdkit.cli.options import given_flags
from kdkit.cli.options import located
from kdkit.cli.options import sentence_settings
from kdkit.cli.resolving import cache_settings
from kdkit.cli.resolving import refuse_sizes_not_read
from kdkit.cli.resolving import with_strategy
from kdkit.doctor import text_examination
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.models import PRESETS
from kdkit.recipes import pretraining
from kdkit.recipes.stages import without_teacher
from kdkit.runs import smoke
from kdkit.runs.settings import FREE
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.tokenizer import check_tokenizer
from kdkit.settings import override
from kdkit.training import text_data
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_sizes
from kdkit.training.model_settings import UPDATE
from kdkit.training.model_settings import ModelSettings
from kdkit.training.model_settings import model_settings
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


# The options of these families, and of no other.
OF_GPT2 = ("task_text", "one_document", "detokenizer")
OF_MASS = ("pairs", "pair_columns", "languages")
OPTIONS = (
    *("decoder", "tokenizer", "vocabulary_size", "task_held_out"),
    *OF_GPT2,
    *OF_MASS,
)
BESIDE_SMOKE = (
    *OPTIONS,
    *("corpus", "column", "held_out", "student"),
    *("pretrained", "teacher", "general"),
)
OF_TASKS = (
    "task", "data_dir", "encoder", "teacher_weights", "num_layers",
    "word_vectors", "unlabeled", "unlabeled_columns", "unlabeled_per_labeled",
    "augment", "augment_model", "augment_vectors", "teacher_file",
    "stages", "parity", "config",
)  # fmt: skip


def distill_on_text(recipe, options) -> None:
    """Runs the steps of a recipe on text, those that are not done yet.

    Args:
        recipe: `kdkit.recipes.Recipe` with stages for the family of
            `--model`.
        options: the parsed options of `kdkit distill`.

    Raises:
        UsageError: for the user's mistakes, before anything is trained.
        RunError: if a loss is not finite.
    """
    steps = decoder_steps(recipe, options)
    runs = steps.runs()
    check_steps(runs, options)
    findings = text_examination.examine_first(
        text_examination.TextSteps(
            runs, given_models(options), pathlib.Path(options.run_dir)
        ),
        options.force,
    )
    run_steps(steps, options.run_dir, findings)


def decoder_steps(recipe, options) -> Steps:
    """What the options ask for, with `--set` applied.

    Raises:
        UsageError: if an option is missing, or of another family.
    """
    _reject(recipe, options)
    run_dir = located(options.run_dir)
    places = {
        "pretrained": absolute(options.pretrained),
        "teacher": options.teacher and absolute(options.teacher[0]),
        "general": options.general and located(options.general),
    }
    recipe = recipe.for_families[options.model]
    found = {
        name: place or str(made(run_dir, name))
        for name, place in places.items()
    }
    caches = _caches(options)
    if options.smoke:
        runs = smoke.steps_on_text(recipe, found)
        for name, cache in caches.items():
            runs[name] = dataclasses.replace(runs[name], cache=cache)
        return _with_settings(Steps(**runs), options)
    on_general, on_task = recipe.stages
    is_made = {name: place is None for name, place in places.items()}
    is_made["pretrained"] &= is_made["teacher"] or is_made["general"]
    _require(options, is_made)
    make_text = _pairs if options.model == "mass" else _running_text
    text, corpus = make_text(options)
    on_corpus, on_task_alone = pretraining.STAGES, (without_teacher(on_task),)
    same = {}
    if options.model == "mass":
        on_corpus, on_task_alone = pretraining.FROM_SCRATCH, pretraining.PAIRS
        same = {"jit_compile": UPDATE}  # batches have many shapes
    steps = Steps(
        pretrained=PretrainSettings(
            corpus=corpus,
            model=_decoder(options.decoder),
            stages=on_corpus,
            tokenizer=absolute(options.tokenizer),
            vocabulary_size=options.vocabulary_size,
            **same,
        )
        if is_made["pretrained"]
        else None,
        teacher=PretrainSettings(
            corpus=text,
            model=ModelSettings(checkpoint=found["pretrained"]),
            stages=on_task_alone,
            **same,
        )
        if is_made["teacher"]
        else None,
        general=PretrainSettings(
            corpus=corpus,
            model=model_settings(options.student or recipe.student),
            stages=(on_general,),
            teacher=found["pretrained"],
            recipe=recipe.name,
            cache=caches.get("general"),
            **same,
        )
        if is_made["general"]
        else None,
        student=PretrainSettings(
            corpus=text,
            model=ModelSettings(checkpoint=found["general"]),
            stages=(on_task,),
            teacher=found["teacher"],
            recipe=recipe.name,
            cache=caches.get("student"),
            **same,
        ),
    )
    return _with_settings(steps, options)


def _caches(options):
    """Where each step keeps the outputs of its teacher, which differ.

    Hidden spans are drawn anew in every epoch.
    """
    cache = cache_settings(options)
    if cache is None:
        return {}
    steps = ("student",) if options.model == "mass" else ("general", "student")
    return {
        name: dataclasses.replace(
            cache, directory=str(pathlib.Path(cache.directory, name))
        )
        for name in steps
    }


def _running_text(options):
    """The text of the task and the general one, of a decoder."""
    text = CorpusSettings(
        files=tuple(map(absolute, options.task_text)),
        held_out=tuple(map(absolute, options.task_held_out or ())),
        one_document=bool(options.one_document),
        detokenizer=options.detokenizer,
    )
    # How lines are read is said of the task's text.
    plain = {"one_document": None, "detokenizer": None}
    corpus = argparse.Namespace(**{**vars(options), **plain})
    return text, corpus_settings(corpus) if options.corpus else None


def _pairs(options):
    """The pairs and the sentences of an encoder-decoder."""
    of_pairs = {
        "corpus": None,
        "column": None,
        "held_out": options.task_held_out,
    }
    of_sentences = {"pairs": None, "pair_columns": None}
    text, corpus = (
        argparse.Namespace(**{**vars(options), **changes})
        for changes in (of_pairs, of_sentences)
    )
    # A language may have several files, and --corpus more than the two of a
    # pair, which come first.
    sides = list(dict.fromkeys(options.languages or ()))
    text.languages = (sides[:2] if options.corpus else sides) or None
    check_sides(options, text.languages)
    return (
        sentence_settings(text),
        sentence_settings(corpus) if options.corpus else None,
    )


def _task_option(options):
    return "--pairs" if options.model == "mass" else "--task-text"


def _decoder(place):
    """The teacher before anything: a preset's sizes, or a checkpoint."""
    if place in PRESETS:
        return model_settings(place)
    return ModelSettings(checkpoint=absolute(place))


def _with_settings(steps, options):
    """Applies `--set`, `--seed`, `--mixed-precision` and `--strategy`.

    Fields that begin with the name of a step are of that step, others of the
    student's last one. Its length of rows, precision and compilation hold for
    all steps, and its seed for those of the student, unless they are set too.
    """
    names = [field.name for field in dataclasses.fields(steps)]
    fields = [
        field if field.split(".")[0] in names else f"student.{field}"
        for field in options.set
    ]
    missing = sorted(
        {field.split(".")[0] for field in fields} - set(steps.runs())
    )
    if missing:
        raise UsageError(
            f"--set: {', '.join(missing)} is a checkpoint here, and not made. "
            "Leave it out."
        )
    last = steps.student
    refuse_sizes_not_read(last, fields)
    if options.seed is not None:
        last = dataclasses.replace(last, seed=options.seed)
    if options.mixed_precision is not None:
        last = dataclasses.replace(
            last, dtype_policy=f"mixed_{options.mixed_precision}"
        )
    if options.strategy is not None:
        last = with_strategy(last, options.strategy)
    steps = override(dataclasses.replace(steps, student=last), fields)
    last = steps.student
    same = {
        name: dataclasses.replace(
            settings,
            corpus=dataclasses.replace(
                settings.corpus, sequence_length=last.corpus.sequence_length
            ),
            dtype_policy=last.dtype_policy,
            jit_compile=last.jit_compile,
            strategy=last.strategy,
            **{field: getattr(last, field) for field in FREE},
            seed=last.seed if name == "general" else settings.seed,
        )
        for name, settings in steps.runs().items()
    }
    return override(dataclasses.replace(steps, **same), fields)


def _reject(recipe, options):
    if options.model not in recipe.for_families:
        models = ("bert", *recipe.for_families)
        raise UsageError(
            f"--model {options.model}: recipe {recipe.name!r} is for encoders"
            f"{''.join(f', {name}' for name in recipe.for_families)}. Expected "
            f"--model {' or '.join(models)}."
        )
    wrong = given_flags(options, OF_TASKS)
    wrong += given_flags(
        options, OF_GPT2 if options.model == "mass" else OF_MASS
    )
    if options.control:
        wrong.append("--control")
    if options.teacher is not None and len(options.teacher) > 1:
        wrong.append("a second --teacher")
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: not of --model {options.model}, which learns "
            f"from --corpus and {_task_option(options)} alone. Leave it out."
        )
    given = given_flags(options, BESIDE_SMOKE) if options.smoke else []
    if given:
        raise UsageError(
            f"{', '.join(given)} cannot stand beside --smoke, which decides "
            "that already. Leave it out, or change settings with --set."
        )


def _require(options, made):
    """Refuses a command that lacks what its steps need."""
    missing = []
    if (options.pairs or options.task_text) is None:
        missing.append(f"{_task_option(options)}, the text to be good at")
    if made["pretrained"] and options.decoder is None:
        missing.append(
            "--decoder, the teacher to pretrain, or --pretrained, one that is"
        )
    needs_corpus = made["pretrained"] or made["general"]
    if needs_corpus and options.corpus is None:
        missing.append("--corpus, the text of pretraining")
    if missing:
        raise UsageError(
            f"Missing: {'; '.join(missing)}. Or try it on generated data with "
            "--smoke."
        )
    unused = []
    if not made["pretrained"]:
        unused += given_flags(
            options, ("decoder", "tokenizer", "vocabulary_size")
        )
    if not needs_corpus:
        unused += given_flags(options, ("corpus", "column", "held_out"))
    if not made["general"]:
        unused += given_flags(options, ("student",))
    if unused:
        raise UsageError(
            f"{', '.join(unused)}: of a step that a checkpoint stands for. "
            "Leave it out."
        )


MASS = "has_encoder_decoder", "encoder-decoder"
DECODER = "has_decoder", "decoder"


def given_models(options) -> dict[str, str]:
    """Returns where models are that stand for steps, by the step.

    Args:
        options: the parsed options of `kdkit distill`.
    """
    places = {
        "pretrained": absolute(options.pretrained),
        "teacher": options.teacher and absolute(options.teacher[0]),
        "general": options.general and located(options.general),
    }
    return {name: place for name, place in places.items() if place}


def check_steps(runs: dict[str, PretrainSettings], options) -> None:
    """Tells all mistakes in the steps at once.

    Args:
        runs: dict from the name of a step to its `PretrainSettings`.
        options: the parsed options of `kdkit distill`.

    Raises:
        UsageError: with all of them.
    """
    places = given_models(options)
    with all_mistakes() as check:
        right = try_steps(runs, options, lambda what: check())
        for name in right[1:]:
            with check():
                models.check_same_ids(
                    *(
                        models.load_tokenizer(places[one])
                        for one in (right[0], name)
                    )
                )


def try_steps(runs: dict[str, PretrainSettings], options, attempt) -> list[str]:
    """Does the checks of each step and of each model that is there.

    Args:
        runs: dict from the name of a step to its `PretrainSettings`.
        options: the parsed options of `kdkit distill`.
        attempt: callable from what is checked to a context manager, which
            notes a mistake.

    Returns:
        The names of the steps whose models are of the right kind.
    """
    for name, settings in runs.items():
        with attempt("files"):
            settings.corpus.check()
        if settings.cache is not None:
            with attempt("files"):
                settings.cache.check()
        with attempt("longest row"):
            _check_positions(name, settings)
        with attempt("sizes"):
            check_sizes(settings.model)
        with attempt("tokenizer"):
            check_tokenizer(settings)
    right = []
    for name, place in given_models(options).items():
        with attempt("model"):
            has_one, expected = MASS if options.model == "mass" else DECODER
            if not getattr(models, has_one)(place):
                raise UsageError(
                    f"{place} is no {expected}. Expected a run of kdkit "
                    "pretrain with one, or its preset directory."
                )
            right.append(name)
            if options.model == "mass":
                tokenizer = models.load_tokenizer(place)
                for settings in runs.values():
                    text_data.require_vocabulary(settings.corpus, tokenizer)
    return right


def _check_positions(name, settings):
    length = settings.corpus.sequence_length
    positions = settings.model.num_positions
    if positions is not None and length > positions:
        field = "mass." if settings.model.mass else ""
        raise UsageError(
            f"Step {name!r}: rows of {length} tokens are longer than the "
            f"model's {positions} positions. Use {CORPUS_LENGTH}{positions}, "
            f"or --set {name}.model.{field}max_sequence_length={length}."
        )
