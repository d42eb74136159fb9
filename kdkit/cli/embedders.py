"""Settings of sentence encoders from the options of `kdkit distill`."""

import copy
import dataclasses

from kdkit import models
from kdkit.cli.choosing import DEPTHS, saved_size
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import (
    absolute,
    cache_settings,
    get_recipe,
    reject_given,
    reject_unread,
    require,
    require_same_recipe,
    settings_of,
)
from kdkit.cli.resolving import with_options
from kdkit.cli.task_data import chosen_task, stage_data
from kdkit.models.sizes import PRESETS, choose_blocks
from kdkit.recipes import RECIPES, CopiedBlocks, Recipe, TokenVectors
from kdkit.recipes.sentence_embedding import for_other_width
from kdkit.recipes.stages import EMBEDDING_DATA
from kdkit.runs import smoke
from kdkit.runs.directory import read_config
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.model_settings import ModelSettings, model_settings
from kdkit.training.translation_settings import (
    VOCABULARY_SIZE,
    TranslationsSettings,
)

WIDTHS = ("hidden_dim", "hidden_size", "dim")
# The options that a new run needs, by kind of data.
REQUIRED = {
    TextsSettings.stage_data: ("texts", "teacher"),
    TranslationsSettings.stage_data: ("parallel", "teacher"),
    CandidatesSettings.stage_data: ("candidates", "teacher"),
}
# The pages of their options.
PAGE = {
    TextsSettings.stage_data: "sentence_embedding",
    TranslationsSettings.stage_data: "multilingual",
    CandidatesSettings.stage_data: "reranker_to_embedder",
}


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


def page_of(recipe: Recipe) -> str:
    """The page of the options that a sentence encoder's recipe reads."""
    if isinstance(recipe.student, TokenVectors):
        return "static_embedding"
    return PAGE[kind_of_data(recipe)]


def _has_layers_of_student(options, kind):
    """Whether `--num-layers` or `--layers` are layers of `--student`."""
    return (
        kind == CandidatesSettings.stage_data
        and options.student is not None
        and options.student not in PRESETS
    )


def embedder_settings(options) -> EmbedderSettings:
    """Returns the settings of `kdkit distill` for a sentence encoder."""
    if options.config:
        settings = settings_of(EmbedderSettings, options.config)
        require_same_recipe(options, settings)
    recipe = get_recipe(settings.recipe if options.config else options.recipe)
    reject_unread(options, page_of(recipe))
    if options.smoke:
        settings = smoke.embedder(recipe, options.parity)
    elif not options.config:
        settings = _new_settings(options, recipe)
    settings = with_options(settings, options)
    if options.control:
        settings = dataclasses.replace(settings, has_control=True)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    return settings


def _new_settings(options, recipe):
    kind = kind_of_data(recipe)
    require(options, *REQUIRED[kind])
    (teacher,) = map(absolute, options.teacher)
    student = _student(options, recipe, teacher)
    stages = recipe.variant(options.parity).stages
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
        if not has_layers:
            reject_given(options, ("num_layers", "layers"), "beside --student")
        if not (options.layers or options.num_layers):
            return model_settings(absolute(options.student))
        source = teacher = absolute(options.student)
    if isinstance(recipe.student, TokenVectors):
        return ModelSettings(static=recipe.student)
    if not isinstance(recipe.student, CopiedBlocks):
        return model_settings(recipe.student)
    layers = tuple(options.layers or ())
    if layers:
        reject_given(options, ("num_layers",), "beside --layers")
    depth = saved_size(teacher, *DEPTHS)
    if depth is None:
        pooling = options.pooling
        if models.find(teacher).kind != "embedder":
            pooling = pooling or "mean"  # any one, to read the sizes
        # A preset by its name, or an encoder in a folder of its own.
        load_tensorflow()
        loaded = models.load_embedder(teacher, pooling)
        depth = models.backbone_of(loaded.model).num_layers
    if not layers:
        count = options.num_layers
        if count is None:
            count = recipe.student.count(depth)
        layers = choose_blocks(recipe.student.rule, depth, count)
        if count == 1:
            layers = (depth,)  # its states are those that are pooled
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
    if not models.find(place).may_have_dense:
        return saved_size(place, *WIDTHS)
    load_tensorflow()
    loaded = models.load_embedder(place, pooling)
    return loaded.model.output_shape[-1]
