"""The checks of a distillation on text only, run before its first step."""

import dataclasses
import functools
import itertools
import pathlib

from kdkit import models
from kdkit.config.model import Checkpoint, Mass, Sizes
from kdkit.config.runs import TextConfig
from kdkit.data.encoding import tokenize
from kdkit.distillation import teacher_entry
from kdkit.doctor.compatibility import same_vocabulary, student_size
from kdkit.doctor.data import texts_too_long
from kdkit.doctor.findings import OK, RUINS, WARNING, Finding, Findings
from kdkit.doctor.leakage import texts_kept_apart
from kdkit.doctor.resources import (
    activations,
    cache_disk,
    disk,
    memory,
    run_size,
)
from kdkit.doctor.unknown_words import texts_with_unknown, unknown_words
from kdkit.models import load_tokenizer
from kdkit.models.families import ALL_FAMILIES
from kdkit.taps import ModelShape
from kdkit.teacher_cache.packing import packed_size

BYTES = 4  # per weight in a file, and about 4 per token in a text
WEIGHT_FILES = ("*.weights.h5", "*.safetensors")


@dataclasses.dataclass(frozen=True)
class TextModel:
    """A model's known properties before it is built."""

    name: str
    parameters: int
    shape: ModelShape


def text_model(student, vocabulary_size: int) -> TextModel:
    """Returns the sizes of the model that a run on text starts with."""
    if isinstance(student, Mass):
        return _mass(student, vocabulary_size)
    if isinstance(student, Sizes):
        return _stack(student, vocabulary_size)
    return TextModel(
        pathlib.Path(_place(student)).name,
        _weigh(_place(student)) // BYTES,
        ModelShape(num_classes=vocabulary_size),
    )


def _place(student):
    """The place that a student starts from, `None` for random weights."""
    copied = getattr(student, "copy_from", None)
    return getattr(student, "checkpoint", copied)


def text_cache_size(settings, vocabulary_size: int) -> int:
    """Returns approximately how many bytes of a teacher's logits are cached."""
    tokens = sum(
        pathlib.Path(file).stat().st_size for file in settings.corpus.all_files
    )
    # For pairs, only the targets' logits are cached.
    tokens //= BYTES * (1 if settings.corpus.kind == "corpus" else 2)
    entries = {
        teacher_entry(objective, 0, vocabulary_size)
        for stage in settings.stages
        for objective in stage.weighted_objectives()
    }
    total = 0
    for entry in entries:
        shape = tokens, entry.width(vocabulary_size)
        total += packed_size(
            shape, settings.cache.precision, entry.num_exact(shape)
        )
    return total


def _stack(sizes, vocabulary_size):
    """Returns a model with blocks of one kind: an encoder or a decoder."""
    width = sizes.hidden_dim
    family = ALL_FAMILIES[sizes.family]
    config = models.BertConfig(**dict(sizes), vocabulary_size=vocabulary_size)
    # Plus biases and normalizations.
    parameters = family.least_parameters(config) + 2 * width
    parameters += sizes.num_layers * (9 * width + sizes.intermediate_dim)
    return TextModel(
        f"{family.title} {sizes.num_layers}×{width}",
        parameters,
        ModelShape(
            num_classes=vocabulary_size,
            num_layers=sizes.num_layers,
            hidden_dim=width,
            num_heads=sizes.num_heads,
        ),
    )


def _mass(sizes, vocabulary_size):
    width = sizes.hidden_dim
    depths = sizes.encoder_num_layers, sizes.decoder_num_layers
    tables = vocabulary_size + 2 * (sizes.max_sequence_length + 2)
    parameters = tables * width
    parameters += sum(depths) * _block(width, sizes.intermediate_dim)
    parameters += depths[1] * _attention(width)
    return TextModel(
        f"MASS {depths[0]}+{depths[1]}×{width}",
        parameters,
        ModelShape(
            num_classes=vocabulary_size,
            hidden_dim=width,
            num_heads=sizes.num_heads,
            encoder_num_layers=depths[0],
            decoder_num_layers=depths[1],
        ),
    )


def _block(width, intermediate):
    """Returns the weights of attention, feed-forward and normalization."""
    return (
        _attention(width) + 2 * width * intermediate + intermediate + 3 * width
    )


def _attention(width):
    """Returns the weights of four projections and a normalization."""
    return 4 * (width * width + width) + 2 * width


def _weigh(place):
    """Returns the bytes of a model's weight files, 0 without any."""
    path = models.find(place).files
    if path is None:
        return 0
    files = [file for name in WEIGHT_FILES for file in path.glob(name)]
    return sum(file.stat().st_size for file in files)


QUICK_TEXTS = 100_000  # to read from a corpus, before a run
TEXTS = 2_000_000
SAMPLE = 2000  # texts whose tokens are counted


class TextSteps:
    """What is known of a chain of runs on text before it begins."""

    def __init__(self, config: TextConfig, folder):
        self.runs = {**config.steps, "student": config}
        self.folder = pathlib.Path(folder)

    @functools.cached_property
    def tokenizers(self) -> dict:
        """The available tokenizers, by the place that they belong to."""
        places = [
            place
            for run in self.runs.values()
            for place in (run.tokenizer, run.teacher, _place(run.student))
            if isinstance(place, str) and not place.startswith("run:")
        ]
        return {place: load_tokenizer(place) for place in places}

    @property
    def corpora(self) -> dict:
        """The text of each step; each text once, under its first step."""
        found = {}
        for name, run in self.runs.items():
            if run.corpus not in found.values():
                found[name] = run.corpus
        return found

    @property
    def vocabulary_size(self) -> int:
        """The size of the vocabulary, which may not be trained yet."""
        for run in self.runs.values():
            if isinstance(run.tokenizer, int):
                return run.tokenizer
        return next(iter(self.tokenizers.values())).vocabulary_size()

    def model(self, student) -> TextModel:
        """Returns a model's sizes, even if a step has yet to train it."""
        name = (_place(student) or "").removeprefix("run:")
        if name in self.runs:
            return self.model(self.runs[name].student)
        return text_model(student, self.vocabulary_size)


def examine_text(
    config: TextConfig, folder, num_texts: int, findings: Findings
) -> None:
    """Runs the checks of a chain on text that need no training."""
    steps = TextSteps(config, folder)
    _examine_vocabulary(steps, findings)
    _examine_sizes(steps, findings)
    _examine_texts(steps, num_texts, findings)
    _examine_lengths(steps, findings)
    for tokenizer in itertools.islice(steps.tokenizers.values(), 1):
        for name, corpus in steps.corpora.items():
            examine_text_words(f"step {name}", corpus, tokenizer, findings)


def examine_text_words(
    name: str, corpus, tokenizer, findings: Findings
) -> None:
    """Counts the texts with words that a tokenizer has no token for."""
    texts = {name: corpus.texts(held_out=False)}
    if corpus.kind == "pairs":
        sides = enumerate(("sources", "targets"))
        texts = {
            f"{name}, {side}": (pair[number] for pair in corpus.pairs(False))
            for number, side in sides
        }
    for what, some in texts.items():
        some = itertools.islice(some, SAMPLE)
        splits = {what: texts_with_unknown(some, tokenizer)}
        findings.add(unknown_words(splits, tokenizer))


def _examine_vocabulary(steps, findings):
    """Compares each available tokenizer with the first one."""
    if len(steps.tokenizers) < 2:
        source = "will be trained on the text"
        for name, tokenizer in steps.tokenizers.items():
            source = f"is that of {name}, {tokenizer.vocabulary_size()} ids"
        findings.add(
            Finding(
                "vocabulary",
                OK,
                f"All models have one tokenizer; it {source}.",
            )
        )
        return
    (first, tokenizer), *others = steps.tokenizers.items()
    for name, other in others:
        # The first one belongs to the model that the others learn from.
        findings.add(
            same_vocabulary(tokenizer, other, f"{name} compared with {first}")
        )


def _examine_sizes(steps, findings):
    """Reports the student's size, the largest step, and the files to write."""
    last = list(steps.runs.values())[-1]
    teacher = steps.model(Checkpoint(checkpoint=last.teacher))
    student = steps.model(last.student)
    if teacher.parameters and student.parameters:
        findings.add(student_size(_sizes(teacher), _sizes(student)))
    largest = max(
        (_step_memory(steps, name) for name in steps.runs), key=_total
    )
    findings.add(memory(*largest))
    written = {}
    for name, settings in steps.runs.items():
        parameters = steps.model(settings.student).parameters
        written[name] = run_size(parameters, parameters, len(settings.stages))
        if settings.corpus.kind == "corpus":
            # Four bytes per token; a token has about four letters.
            written[name] += sum(
                pathlib.Path(file).stat().st_size
                for file in settings.corpus.all_files
            )
    findings.add(disk(written, steps.folder))
    for settings in steps.runs.values():
        if settings.cache is not None:
            findings.add(
                cache_disk(
                    text_cache_size(settings, steps.vocabulary_size),
                    settings.cache,
                    " A loss with top_k only stores the top classes.",
                )
            )


def _sizes(model):
    return {"name": model.name, "parameters": model.parameters}


def _step_memory(steps, name):
    """Returns the arguments of `memory` for a step."""
    settings = steps.runs[name]
    model, teacher = steps.model(settings.student), 0
    if settings.teacher is not None:
        taught = Checkpoint(checkpoint=settings.teacher)
        teacher = steps.model(taught).parameters
    numbers = []
    length = settings.corpus.sequence_length
    for stage in settings.stages:
        rows = stage.batch_size // stage.gradient_accumulation_steps
        if settings.corpus.kind != "corpus":
            rows = max(stage.batch_tokens // (2 * length), 1)
        positions = min(rows * length, stage.chunk_size or rows * length)
        # The gradient of the student's logits is as large as these.
        logits = positions * steps.vocabulary_size * (3 if teacher else 2)
        numbers.append(rows * activations(model.shape, length) + logits)
    return (
        teacher,
        model.parameters,
        model.parameters,
        max(numbers),
        f"{rows} × {length} tokens in step {name}",
    )


def _total(arguments):
    teachers, student, trained, per_batch, _ = arguments
    return teachers + student + 3 * trained + per_batch


def _examine_texts(steps, num_texts, findings):
    """Compares held-out texts with training texts, for every corpus."""
    corpora = steps.corpora
    measured = list(steps.runs.values())[-1].corpus
    for held_name, held_out in corpora.items():
        for name, corpus in corpora.items():
            if (corpus.kind == "pairs") != (held_out.kind == "pairs"):
                continue
            findings.add(
                texts_kept_apart(
                    _texts(corpus, False),
                    _texts(held_out, True),
                    num_texts,
                    (held_name, name),
                    RUINS if held_out == corpus == measured else WARNING,
                )
            )


def _texts(corpus, held_out):
    """Returns texts or pairs of texts, as tuples."""
    if corpus.kind == "pairs":
        return corpus.pairs(held_out)
    return ((text,) for text in corpus.texts(held_out))


def _examine_lengths(steps, findings):
    """Counts the sentences that will be truncated."""
    for name, corpus in steps.corpora.items():
        if corpus.kind == "corpus":
            continue
        texts = list(itertools.islice(corpus.texts(False), SAMPLE))
        if steps.tokenizers:
            tokenizer = next(iter(steps.tokenizers.values()))
            pieces = tokenize(texts, tokenizer)
            counts = [len(pieces[text]) for text in texts]
            unit = "tokens"
        else:
            counts, unit = [len(text.split()) for text in texts], "words"
        findings.add(
            texts_too_long(
                name,
                counts,
                corpus.sequence_length,
                unit,
                "--set corpus.sequence_length=",
            )
        )
    if all(corpus.kind == "corpus" for corpus in steps.corpora.values()):
        findings.add(
            Finding(
                "lengths",
                OK,
                "Running text is packed to full rows: nothing is truncated.",
            )
        )
