"""The verbs that train: each makes a config of its words, and runs it."""

import importlib
import json

from kdkit.cli.flags import Asked, asked
from kdkit.cli.loading import choose_devices, load_tensorflow
from kdkit.errors import UsageError
from kdkit.runs.configure import augmentation_of

FAILED = 1
SMOKE = {
    "action": "store_true",
    "help": "Tiny models on generated data, in under a minute.",
}
FORCE = {
    "action": "store_true",
    "help": "Continue in spite of errors in the first checks.",
}
RUN = {
    "run_dir": {"help": "The run's directory. An existing run continues."},
    "smoke": SMOKE,
    "force": FORCE,
    "devices": {
        "type": int,
        "help": "For --strategy: the first N GPUs, or N parts of the CPU.",
    },
}
SHARD = {"help": "Do part I, from 1, of N parts: I/N. N processes share it."}


def train_teacher(words):
    """Fine-tunes a classifier on a task and saves its best epoch on dev.

    The model is a keras-hub preset's name, a preset directory or a Hugging Face
    checkpoint directory. The teacher is saved in RUN/teacher/.

    example:
      kdkit train-teacher --train reviews.csv --text-column review \\
          --label-column sentiment --model bert_base_en_uncased \\
          --run-dir runs/teacher
    """
    _train(asked_by("train-teacher", words), "after_teacher")


def pretrain(words):
    """Trains a language model on text.

    An encoder learns to predict masked tokens and is saved in RUN/encoder/. A
    decoder learns the next token and is saved in RUN/decoder/. An
    encoder-decoder learns to write the hidden span of a sentence, or with
    --pairs the target for a source, and is saved in RUN/encoder_decoder/.

    With --recipe and --teacher, a student learns from a teacher with the
    recipe's stages on text, and is saved in RUN/student/.

    example:
      kdkit pretrain --corpus wiki.txt --model bert_base_en_uncased \\
          --run-dir runs/pretrained
      kdkit pretrain --recipe tinybert --teacher bert_base_en_uncased \\
          --corpus wiki.txt --run-dir runs/general
      kdkit pretrain --pairs train.en train.de --languages en de \\
          --held-out val.en val.de --model runs/mass --run-dir runs/en_de
    """
    _train(asked_by("pretrain", words), "after_student")


def distill(words):
    """Distils a teacher into a student, following a recipe or a file.

    The student is saved in RUN/student/. The same command continues a stopped
    run. Without --task and --train, the data is that of the teacher's run. A
    file is TOML, as kdkit init prints it, or a run's config.json.

    example:
      kdkit distill tinybert --task sst2 --data-dir glue \\
          --teacher runs/teacher --control --run-dir runs/tinybert
      kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \\
          --vocabulary-size 8000 --corpus wiki.txt \\
          --task-text ptb.train.txt --run-dir runs/lightpaff_gpt2
      kdkit distill sentence_embedding --texts captions.txt \\
          --teacher all-MiniLM-L6-v2 --num-layers 3 --run-dir runs/encoder
      kdkit distill runs/tinybert/config.json --run-dir runs/again
    """
    _train(asked_by("distill", words), "after_student")


def doctor(words):
    """Checks a distillation for mistakes before it runs.

    It takes the words of kdkit distill, trains nothing and writes nothing. Each
    check is a row of the table: ok, a warning, or an error that would ruin the
    run. The exit status is 1 if there is an error.

    example:
      kdkit doctor tinybert --task sst2 --data-dir glue --teacher runs/teacher
    """
    found = asked("doctor", doctor.__doc__, words, RUN)
    config = found.config()
    load_tensorflow()
    untrained = importlib.import_module("kdkit.runs.untrained")
    place = found.options.run_dir or "unnamed_run"
    findings = untrained.examined(config, place)
    module = importlib.import_module("kdkit.doctor")
    module.print_findings(findings)
    return FAILED if module.ruinous(findings) else None


def cache(words):
    """Runs a teacher on all examples of a task and caches its outputs.

    With --cache, kdkit distill also does this; this verb does it in advance.
    The last line is a JSON object with the error of each output that was saved
    in fewer bits.

    example:
      kdkit cache tinybert --task sst2 --data-dir glue --teacher runs/teacher \\
          --cache caches/sst2 --cache-precision bf16
    """
    found = asked("cache", cache.__doc__, words, {"shard": SHARD})
    if "cache" not in found.tree:
        found.mistakes.append("Missing: --cache.")
    config, part = found.config(), _part(found.options.shard)
    load_tensorflow()
    untrained = importlib.import_module("kdkit.runs.untrained")
    caches = untrained.fill_cache(config, part)
    print(json.dumps({"relative_errors": caches.relative_errors()}))


def augment(words):
    """Writes augmented examples for a task: copies with some words replaced.

    This is TinyBERT's augmentation (algorithm 1). A masked language model
    proposes replacements for a word of one piece, and the nearest word vectors
    for a word of several pieces. The same command continues a stopped file.

    example:
      kdkit augment --task sst2 --data-dir glue --model runs/pretrained \\
          --word-vectors glove.6B.300d.txt --output sst2_augmented.tsv
    """
    options = {"output": {"help": "The file to write."}, "shard": SHARD}
    about = augment.__doc__
    found = asked("augment", about, words, options, "augment", ("output",))
    config = found.config(augmentation_of)
    part = _part(found.options.shard)
    load_tensorflow()
    made = importlib.import_module("kdkit.augmentation.run")
    made.augment(config, found.options.output, part)


TRAINING = {
    "train-teacher": (train_teacher, "teacher"),
    "pretrain": (pretrain, "text"),
    "distill": (distill, None),
}


def asked_by(verb: str, words) -> Asked:
    """Returns what the words of a verb that trains ask for."""
    function, about = TRAINING[verb]
    return asked(verb, function.__doc__, words, RUN, about, ("run_dir",))


def _train(found: Asked, then: str) -> None:
    """Runs a config, and logs what to do next."""
    config, options = found.config(), found.options
    choose_devices(config.training.strategy, options.devices, found.source)
    load_tensorflow()
    run = importlib.import_module("kdkit.runs.run").run
    run(config, options.run_dir, options.force)
    next_steps = importlib.import_module("kdkit.cli.next_steps")
    next_steps.log_next(getattr(next_steps, then)(options.run_dir))


def _part(shard: str | None) -> tuple[int, int] | None:
    """The part of `--shard`: i, from 0, and n; or `None`."""
    which, _, count = (shard or "1/1").partition("/")
    if not (which.isdecimal() and count.isdecimal()):
        raise UsageError(f"--shard: expected I/N, such as 1/4, not {shard!r}.")
    if not 1 <= int(which) <= int(count):
        raise UsageError(f"--shard: {which} is no part of {count}.")
    return None if shard is None else (int(which) - 1, int(count))
