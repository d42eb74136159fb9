"""Settings of sentence encoders from the options of `kdkit distill`."""

import copy
import dataclasses

from kdkit import models
from kdkit.cli.choosing import DEPTHS, saved_size
from kdkit.cli.groups import (
    CANDIDATES,
    EMBEDDERS,
    LAYERED,
    TEXTS,
    TRANSLATIONS,
    BenchmarkTextOptions,
    SentenceOptions,
    TransferOptions,
)
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import (
    absolute,
    all_assignments,
    cache_settings,
    get_recipe,
    settings_of,
)
from kdkit.cli.parser import File, given_flags, names_in, option
from kdkit.cli.resolving import with_options
from kdkit.cli.task_data import COLUMNS, chosen_task, stage_data
from kdkit.errors import UsageError, all_mistakes
from kdkit.models.sizes import POOLINGS, PRESETS
from kdkit.recipes import RECIPES, CopiedBlocks, Recipe, TokenVectors
from kdkit.recipes.sentence_embedding import for_other_width
from kdkit.recipes.stages import EMBEDDING_DATA
from kdkit.runs import smoke
from kdkit.runs.directory import read_config
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.settings import override
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.model_settings import ModelSettings, model_settings
from kdkit.training.translation_settings import (
    VOCABULARY_SIZE,
    TranslationsSettings,
)


@dataclasses.dataclass
class EmbedderOptions:
    """sentence encoders (sentence_embedding and others)"""

    PAGES = EMBEDDERS

    texts: list[File] | None = option(
        "the texts to learn from, one per line, or tables with --column. Empty "
        "lines, repeated texts, and texts of --task or --dev are left out.",
        pages=TEXTS,
    )
    parallel: list[File] | None = option(
        "texts, a file for each language, the teacher's first. Their lines "
        "belong together. Lines without a text in the first file are left out.",
        pages=TRANSLATIONS,
    )
    dev_parallel: list[File] | None = option(
        "texts of the same languages to measure on. Defaults to one in 100 "
        "lines of --parallel, which are then not used for training.",
        pages=TRANSLATIONS,
    )
    candidates: list[File] | None = option(
        "queries with documents to rank. Tables with the columns query, "
        "positive, negative, and further ones negative_2 and so on; or JSON "
        "lines with the list negatives.",
        pages=CANDIDATES,
    )
    dev_candidates: list[File] | None = option(
        "queries with documents, to choose the best epoch on. Defaults to "
        "every 20th query of --candidates, which is then not used for "
        "training.",
        pages=CANDIDATES,
    )
    pooling: str | None = option(
        "the pooling of an encoder that does not describe it: the teacher's, "
        "or with --candidates the student's.",
        choices=POOLINGS,
    )
    layers: list[int] | None = option(
        "instead of --num-layers: the layers by number, from 1. They are the "
        "teacher's, or with --candidates and --student that encoder's.",
        metavar="N",
        pages=LAYERED,
    )


WIDTHS = ("hidden_dim", "hidden_size", "dim")
# Options that have no meaning for sentence encoders.
FOREIGN = (
    *("encoder", "teacher_weights", "pretrained", "general", "stages"),
    *("corpus", "held_out", "train", "test", "labels", "regression"),
    *("word_vectors", "quantize", "decoder"),
    *("task_text", "task_held_out"),
    *names_in(TransferOptions, BenchmarkTextOptions, SentenceOptions),
)
# The required options for each kind of data, and options for this kind alone.
REQUIRED = {
    TextsSettings.stage_data: ("texts", "teacher"),
    TranslationsSettings.stage_data: ("parallel", "teacher"),
    CandidatesSettings.stage_data: ("candidates", "teacher"),
}
OF_KIND = {
    TextsSettings.stage_data: ("texts", "column"),
    TranslationsSettings.stage_data: (
        *("parallel", "dev_parallel", "tokenizer", "vocabulary_size"),
    ),
    CandidatesSettings.stage_data: ("candidates", "dev_candidates"),
}
# Options that --config and --smoke decide already.
DECIDED = (
    *names_in(EmbedderOptions),
    *("tokenizer", "vocabulary_size"),
    *("teacher", "student", "num_layers", "task", "data_dir", "dev"),
    *("column", *COLUMNS),
)


def is_about_embedders(options) -> bool:
    """Returns whether options are for a recipe of sentence encoders."""
    if options.config is not None:
        found = stage_data(read_config(options.config))
        return not found.isdisjoint(EMBEDDING_DATA)
    recipe = RECIPES.get(options.recipe)
    return recipe is not None and recipe.trains_embedder


def kind_of_data(recipe: Recipe) -> str:
    """The data of a sentence encoder's recipe, as its stages name it."""
    return recipe.stages[0].data


def reject_embedder_options(options) -> None:
    """Rejects options that only sentence encoders have."""
    given = given_flags(options, names_in(EmbedderOptions))
    if given:
        raise UsageError(
            f"{', '.join(given)}: options for sentence encoders. Expected the "
            f"recipe {' or '.join(_recipes_with(given) or _recipes_with(()))}. "
            f"Received: {options.recipe}. Use such a recipe, or remove them."
        )


def validate_embedder(options, checks_fields: bool = False) -> None:
    """Validates a sentence encoder's options, without reading its texts."""
    is_new = not (options.config or options.smoke)
    problems = []
    try:
        with all_mistakes() as check:
            with check():
                _reject_foreign(options)
            with check():
                _reject_decided(options)
            recipe = RECIPES.get(options.recipe)
            if recipe is not None and recipe.trains_embedder:
                with check():
                    _reject_of_other_kinds(options)
            with check():
                cache_settings(options)
            if is_new:
                with check():
                    _require_new(options)
    except UsageError as error:
        problems.append(str(error))
    if (problems or checks_fields) and options.recipe in RECIPES:
        settings = smoke.embedder(RECIPES[options.recipe])
        stages = RECIPES[options.recipe].variant(options.parity).stages
        settings = dataclasses.replace(settings, stages=stages)
        try:
            override(settings, all_assignments(settings, options))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))


def _reject_foreign(options):
    given = given_flags(
        options,
        [name for name in FOREIGN if getattr(options, name) is not False],
    )
    if options.model != "bert":
        given.append("--model")
    if len(options.teacher or ()) > 1:
        given.append("a second --teacher")
    if given:
        raise UsageError(
            f"{', '.join(given)} is not for sentence encoders, which learn "
            "from texts and one --teacher. Remove it."
        )


def _reject_of_other_kinds(options):
    """Rejects the options of recipes with another kind of data."""
    recipe = RECIPES[options.recipe]
    kind = kind_of_data(recipe)
    others = {name for names in OF_KIND.values() for name in names}
    given = given_flags(options, sorted(others.difference(OF_KIND[kind])))
    if given:
        needed = " and ".join(map(_flag, REQUIRED[kind]))
        fix = "Remove it"
        if others := _recipes_with(given):
            fix += f", or use the recipe {' or '.join(others)}"
        raise UsageError(
            f"{', '.join(given)} is not for {recipe.name}. Expected {needed}. "
            f"{fix}."
        )


def _recipes_with(flags) -> list[str]:
    """The recipes of sentence encoders that have all these options."""
    everything = {_flag(name) for names in OF_KIND.values() for name in names}
    return [
        name
        for name, recipe in RECIPES.items()
        if recipe.trains_embedder
        and everything.intersection(flags).issubset(
            map(_flag, OF_KIND[kind_of_data(recipe)])
        )
    ]


def _reject_decided(options):
    source = "--config" if options.config else "--smoke"
    given = given_flags(options, DECIDED)
    if options.config:
        given += given_flags(options, ("parity",))
        given += ["--smoke"] if options.smoke else []
    if given and (options.config or options.smoke):
        raise UsageError(
            f"{', '.join(given)} clashes with {source}, which decides that "
            "already. Remove it, or change settings with --set."
        )


def _require_new(options):
    """Requires the options of a new run, and that they fit together."""
    kind = kind_of_data(get_recipe(options.recipe))
    with all_mistakes() as check:
        with check():
            get_recipe(options.recipe).variant(options.parity)
        with check():
            missing = [
                _flag(name)
                for name in REQUIRED[kind]
                if getattr(options, name) is None
            ]
            if missing:
                raise UsageError(
                    f"Missing: {', '.join(missing)}. Or try it on generated "
                    "data with --smoke."
                )
        with check():
            student = given_flags(options, ("num_layers", "layers"))
            if not _has_layers_of_student(options, kind):
                student += given_flags(options, ("student",))
            if len(student) > 1:
                raise UsageError(
                    f"{' and '.join(student)} each choose the student. "
                    "Expected one of them. Received: "
                    f"{len(student)}. Remove the others."
                )
            recipe = RECIPES.get(options.recipe)
            if student and isinstance(
                getattr(recipe, "student", None), TokenVectors
            ):
                raise UsageError(
                    f"The student of {recipe.name} is a table of token "
                    f"vectors, which has no layers. Received: {student[0]}. "
                    "Remove it, or use the recipe sentence_embedding."
                )
        with check():
            vocabulary = given_flags(options, ("tokenizer", "vocabulary_size"))
            if len(vocabulary) > 1:
                raise UsageError(
                    f"{' and '.join(vocabulary)} each choose the student's "
                    "vocabulary. Received: both. Remove one of them."
                )
        with check():
            pairs = given_flags(options, ("task", "dev"))
            if len(pairs) > 1:
                raise UsageError(
                    "--task and --dev each name the pairs to measure on. "
                    "Received: both. Remove one of them."
                )
        with check():
            columns = given_flags(options, COLUMNS)
            if bool(columns) != (options.dev is not None) or len(columns) == 1:
                raise UsageError(
                    "Your own table of scored pairs needs --dev FILE, "
                    "--text-column A B and --label-column SCORE. Received: "
                    f"{', '.join(given_flags(options, ('dev', *COLUMNS)))}. "
                    "Pass all three."
                )
        with check():
            if options.data_dir is not None and options.task is None:
                raise UsageError(
                    "--data-dir is the folder of a --task. Received: no "
                    "--task. Add --task, or remove --data-dir."
                )


def _flag(name):
    return f"--{name.replace('_', '-')}"


def _has_layers_of_student(options, kind):
    """Whether `--num-layers` or `--layers` are layers of `--student`."""
    return (
        kind == CandidatesSettings.stage_data
        and options.student is not None
        and options.student not in PRESETS
    )


def embedder_settings(options) -> EmbedderSettings:
    """Returns the settings of `kdkit distill` for a sentence encoder."""
    validate_embedder(options)
    if options.config:
        settings = settings_of(EmbedderSettings, options.config)
        if options.recipe not in (None, settings.recipe):
            raise UsageError(
                f"{options.config} holds a run of recipe {settings.recipe!r}. "
                f"Received: {options.recipe!r}. Name {settings.recipe}, or "
                "remove --config."
            )
    elif options.smoke:
        settings = smoke.embedder(get_recipe(options.recipe), options.parity)
    else:
        settings = _new_settings(options)
    settings = with_options(settings, options)
    if options.control:
        settings = dataclasses.replace(settings, has_control=True)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    return settings


def _new_settings(options):
    recipe = get_recipe(options.recipe)
    (teacher,) = map(absolute, options.teacher)
    student = _student(options, recipe, teacher)
    stages = recipe.variant(options.parity).stages
    kind = kind_of_data(recipe)
    if kind != CandidatesSettings.stage_data:  # vectors are compared
        widths = _widths(student, teacher, options.pooling)
        if None not in widths and widths[0] != widths[1]:
            stages = for_other_width(stages, is_wider=widths[0] > widths[1])
    return EmbedderSettings(
        recipe=recipe.name,
        data=_with_pairs(DATA[kind](options, student), options),
        teacher=teacher,
        student=student,
        stages=stages,
        pooling=options.pooling,
        parity=options.parity,
    )


def _texts(options, student):
    del student
    files = tuple(map(absolute, options.texts))
    return TextsSettings(files, column=options.column)


def _translations(options, student: ModelSettings):
    size, tokenizer = options.vocabulary_size, absolute(options.tokenizer)
    if size is None and tokenizer is None and student.checkpoint is None:
        size = VOCABULARY_SIZE
    return TranslationsSettings(
        files=tuple(map(absolute, options.parallel)),
        held_out=tuple(map(absolute, options.dev_parallel or ())),
        tokenizer=tokenizer,
        vocabulary_size=size,
    )


def _candidates(options, student):
    del student
    return CandidatesSettings(
        files=tuple(map(absolute, options.candidates)),
        held_out=tuple(map(absolute, options.dev_candidates or ())),
    )


DATA = {
    TextsSettings.stage_data: _texts,
    TranslationsSettings.stage_data: _translations,
    CandidatesSettings.stage_data: _candidates,
}


def _with_pairs(data, options):
    """The settings of data with the scored pairs that options name."""
    if options.task is None and options.dev is None:
        return data
    named = copy.copy(options)
    named.regression = options.dev is not None  # scores, for a table
    task = chosen_task(named)
    return dataclasses.replace(
        data,
        task=task.name,
        data_dir=absolute(options.data_dir),
        table=task.table,
    )


def _student(options, recipe: Recipe, teacher):
    """The student that options name, by default half of the teacher."""
    source = "teacher"
    if options.student is not None:
        has_layers = _has_layers_of_student(options, kind_of_data(recipe))
        if not (has_layers and (options.layers or options.num_layers)):
            return model_settings(absolute(options.student))
        source = teacher = absolute(options.student)
    if isinstance(recipe.student, TokenVectors):
        return ModelSettings(static=recipe.student)
    if not isinstance(recipe.student, CopiedBlocks):
        return model_settings(recipe.student)
    layers = tuple(options.layers or ())
    depth = saved_size(teacher, *DEPTHS)
    if depth is None:
        pooling = options.pooling
        if not models.has_embedder(teacher):
            pooling = pooling or "mean"  # any one, to read the sizes
        # A preset by its name, or an encoder in a folder of its own.
        load_tensorflow()
        loaded = models.load_embedder(teacher, pooling)
        if not models.has_encoder(loaded.model):
            raise UsageError(
                f"{teacher} is a static embedder, which has no layers to start "
                "from. Expected an encoder. Received: a table of token "
                "vectors. Pass --student with an encoder or a preset."
            )
        depth = models.backbone_of(loaded.model).num_layers
    if not layers:
        count = options.num_layers
        if count is None:
            count = recipe.student.count(depth)
        if not 1 <= count <= depth:
            raise UsageError(
                f"--num-layers: the encoder has {depth} layers. Expected 1 to "
                f"{depth}. Received: {count}."
            )
        layers = models.choose_blocks(recipe.student.rule, depth, count)
        if count == 1:
            layers = (depth,)  # its states are those that are pooled
    if not all(1 <= layer <= depth for layer in layers):
        raise UsageError(
            f"--layers: expected layers from 1 to {depth}, those of {teacher}. "
            f"Received: {' '.join(map(str, layers))}."
        )
    return ModelSettings(copy_from=source, copy_layers=layers)


def _widths(student, teacher, pooling):
    """The widths of a student's and a teacher's vectors, `None` if unknown."""
    if student.copy_from is not None or student.static is not None:
        return None, None  # it has the teacher's or fewer
    width = student.hidden_dim
    if student.checkpoint is not None:
        width = _vector_width(student.checkpoint, pooling)
    return width, _vector_width(teacher, pooling)


def _vector_width(place, pooling):
    """The width of a saved encoder's vectors, `None` if it is unknown."""
    if not models.may_have_dense(place):
        return saved_size(place, *WIDTHS)
    load_tensorflow()
    loaded = models.load_embedder(place, pooling)
    return models.embedding_width(loaded.model)
