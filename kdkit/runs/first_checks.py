"""Checks of a run that finish before Keras is imported."""

from collections.abc import Callable

from kdkit import models
from kdkit.errors import UsageError, all_mistakes
from kdkit.runs.directory import is_finished, require_run
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.pipeline import Pipeline, RunSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.tokenizer import require_fitting_tokenizer
from kdkit.settings import to_dict
from kdkit.training import text_data
from kdkit.training.making import CORPUS_LENGTH, validate_sizes
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.task_data import check_data, open_pairs, open_task


def validate_first(settings: RunSettings, run_dir) -> None:
    """Checks a run's directory, its files and the places of its models."""
    require_run(run_dir, to_dict(settings), type(settings))
    if is_finished(run_dir):
        return
    if not getattr(settings, "steps_before", None):  # see `validate_steps`
        require_sources(settings)


def validate_steps(pipeline: Pipeline, attempt: Callable) -> list[str]:
    """Checks the steps of a chain on text, and the given models."""
    runs = [step.settings for step in pipeline.steps]
    for step in pipeline.steps:
        settings = step.settings
        with attempt("files"):
            settings.corpus.check()
        if settings.cache is not None:
            with attempt("files"):
                settings.cache.check()
        with attempt("longest row"):
            _check_positions(step.name, settings)
        with attempt("sizes"):
            validate_sizes(settings.model)
        with attempt("tokenizer"):
            require_fitting_tokenizer(settings)
    right = []
    on_sentences = pipeline.settings.reads_sentences
    for name, place in pipeline.given.items():
        with attempt("model"):
            has_one, expected = models.has_decoder, "a decoder"
            if on_sentences:
                has_one, expected = (
                    models.has_encoder_decoder,
                    "an encoder-decoder",
                )
            if not has_one(place):
                raise UsageError(
                    f"{place} is not {expected}. Expected a run of kdkit "
                    "pretrain with one, or its preset directory."
                )
            right.append(name)
            if on_sentences:
                tokenizer = models.load_tokenizer(place)
                for settings in runs:
                    text_data.require_vocabulary(settings.corpus, tokenizer)
    for name in right[1:]:
        with attempt("vocabulary"):
            models.check_same_ids(
                *(
                    models.load_tokenizer(pipeline.given[one])
                    for one in (right[0], name)
                )
            )
    return right


def _check_positions(name, settings):
    length = settings.corpus.sequence_length
    positions = settings.model.num_positions
    if positions is not None and length > positions:
        field = "mass." if settings.model.mass else ""
        raise UsageError(
            f"Step {name!r}: sequences of {length} tokens are longer than the "
            f"model's {positions} positions. Use {CORPUS_LENGTH}{positions}, "
            f"or --set {name}.model.{field}max_sequence_length={length}."
        )


def require_sources(settings: RunSettings) -> None:
    """Checks the files of a run and the places of its models."""
    with all_mistakes() as check:
        if isinstance(settings, PretrainSettings):
            # Pairs are read completely.
            if not isinstance(settings.corpus, PairSettings):
                with check():
                    settings.corpus.check()
        elif isinstance(settings, EmbedderSettings):
            with check():
                settings.data.check()
            with check():
                task = open_pairs(settings.data)
                if task is not None:
                    dev = [settings.data.dev_split]
                    task.check_data(dev, settings.data.data_dir)
        else:
            with check():
                check_data(open_task(settings.data), settings.data)
