"""What would stop a later step on text, told before the first one begins."""

from kdkit import models
from kdkit.cli.options import absolute
from kdkit.cli.options import located
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.training import seq2seq_material
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_sizes
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_tokenizer import check_tokenizer
from kdkit.training.stages import check_objectives

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
        with attempt("objectives"):
            check_objectives(settings)
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
                    seq2seq_material.check_vocabulary(
                        settings.corpus, tokenizer
                    )
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
