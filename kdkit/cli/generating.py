"""The work of `kdkit generate`: a sampler, a decoder, a text."""

import keras_hub

from kdkit import decoding
from kdkit import export
from kdkit import models
from kdkit.cli.locating import locate
from kdkit.cli.opening import file_tokenizer
from kdkit.cli.options import given_flags
from kdkit.cli.writers import is_writer
from kdkit.cli.writing_texts import print_written
from kdkit.cli.writing_texts import show
from kdkit.errors import UsageError

MAX_TOKENS = 64
# Option to the argument of the sampler's class.
ARGUMENTS = {
    "temperature": "temperature",
    "top_k": "k",
    "top_p": "p",
    "num_beams": "num_beams",
    "seed": "seed",
}
# Of `keras_hub.samplers`.
SAMPLERS = {
    "greedy": ("GreedySampler", ()),
    "random": ("RandomSampler", ("temperature", "seed")),
    "top_k": (
        "TopKSampler",
        ("top_k", "temperature", "seed"),
    ),
    "top_p": (
        "TopPSampler",
        ("top_p", "temperature", "seed"),
    ),
    "beam": ("BeamSampler", ("num_beams",)),
}


def print_text(options) -> None:
    """Prints the prompt and what a decoder adds to it, or what is made of it.

    Args:
        options: the parsed options of `kdkit generate`.

    Raises:
        UsageError: if there is no decoder, no tokenizer, or no room, or an
            option is not the sampler's.
    """
    locate(options.model)  # a missing model comes first
    if is_writer(options.model):
        print_written(options)
        return
    given = given_flags(
        options,
        (
            *("input", "output", "kept_input"),
            *("languages", "length_penalty"),
        ),
    )
    if given:
        raise UsageError(
            f"{', '.join(given)}: of an encoder-decoder, and {options.model} "
            "is none. Leave it out."
        )
    sampler = _sampler(options)
    decoder, tokenizer = _open(options)
    end = tokenizer.end_token_id
    given = list(map(int, tokenizer(options.prompt)))
    new = decoding.generate(
        decoder,
        [end, *given],
        MAX_TOKENS if options.max_tokens is None else options.max_tokens,
        sampler,
        [end],
    )
    show(tokenizer.detokenize([*given, *map(int, new)]))


def _sampler(options):
    sampler, names = SAMPLERS[options.sampler]
    foreign = given_flags(
        options, [name for name in ARGUMENTS if name not in names]
    )
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of the sampler {options.sampler!r}. "
            "Leave it out, or choose another --sampler."
        )
    arguments = {
        ARGUMENTS[name]: getattr(options, name)
        for name in names
        if getattr(options, name) is not None
    }
    if "seed" in names:
        arguments.setdefault("seed", 0)
    _check(arguments)
    return getattr(keras_hub.samplers, sampler)(**arguments)


def _check(arguments):
    wrong = [
        f"{name} must be {expected}, received {arguments[name]}"
        for name, is_right, expected in (
            ("temperature", lambda value: value > 0, "above 0"),
            ("k", lambda value: value >= 1, "1 or more"),
            ("p", lambda value: 0 < value <= 1, "above 0 and at most 1"),
            ("num_beams", lambda value: value >= 1, "1 or more"),
        )
        if name in arguments and not is_right(arguments[name])
    ]
    if wrong:
        raise UsageError(f"Wrong setting of the sampler: {'; '.join(wrong)}.")


def _open(options):
    place = locate(options.model)
    if export.exporter_of(place.path) is not None:
        decoder = export.open_file(place.path, kind="decoder")
        return decoder, file_tokenizer(place, options)
    if options.tokenizer is not None:
        raise UsageError(
            "--tokenizer is for exported files. Received: "
            f"{place.path}, which has its own. Leave it out."
        )
    if not models.has_decoder(place.path):
        raise UsageError(
            f"{options.model} is no decoder. Expected a run of kdkit pretrain "
            "with a decoder, its preset directory, or a .tflite file of it."
        )
    loaded = models.load_language_model(place.path)
    return loaded.model, loaded.tokenizer
