"""Groups of options that several verbs share. Each option is declared once."""

import dataclasses
import re
import typing

from kdkit import settings
from kdkit.cli.parser import File, Model, changed, option
from kdkit.models.sizes import POOLINGS
from kdkit.settings import from_dict

LONGEST = 65536  # tokens; the known families' models read far fewer
# Help pages: on tasks, on text, sentence encoders, and some of them.
TASK, TEXT = ("bert",), ("gpt2", "mass")
TEXTS = ("sentence_embedding", "static_embedding")
TRANSLATIONS, CANDIDATES = ("multilingual",), ("reranker_to_embedder",)
LAYERED, EMBEDDERS = (
    texts + TRANSLATIONS + CANDIDATES for texts in (TEXTS[:1], TEXTS)
)
ENCODERS, FAMILIES = TASK + EMBEDDERS, TASK + TEXT
LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")  # model cards contain it


def a_seed(text: str) -> int:
    """Converts a text to a seed."""
    return from_dict(settings.Seed, text)


def a_length(text: str) -> int:
    """Converts a text to a length in tokens."""
    try:
        length = int(text)
    except ValueError:
        length = 0
    if not 1 <= length <= LONGEST:
        raise ValueError(
            f"expected a number of tokens from 1 to {LONGEST}, received "
            f"{text!r}"
        )
    return length


def a_license(text: str) -> str:
    """Returns a license's identifier, in the form of the Hugging Face Hub."""
    if not LICENSE.fullmatch(text):
        raise ValueError(
            "expected the Hugging Face Hub's identifier of a license, such as "
            "apache-2.0, mit, cc-by-4.0 or other, in lower case and without "
            f"blanks, received {text!r}"
        )
    return text


Seed = typing.Annotated[int, a_seed]
Length = typing.Annotated[int, a_length]
License = typing.Annotated[str, a_license]


@dataclasses.dataclass
class TableOptions:
    """your own table"""

    PAGES = ENCODERS

    train: File | None = option(
        "your own table, instead of --task. A CSV, TSV, JSON lines or Parquet "
        "file, or a folder that Hugging Face datasets saved.",
        pages=TASK,
    )
    dev: File | None = option(
        "the table to choose the best epoch on. By default, a tenth of --train "
        "is set aside, the same examples in every run. For sentence encoders: "
        "a table of scored pairs."
    )
    test: File | None = option(
        "the table for kdkit evaluate --split test", rare=True, pages=TASK
    )
    text_column: list[str] | None = option(
        "the column with the texts, two for pairs", metavar="COLUMN"
    )
    label_column: str | None = option(
        "the column with the labels", metavar="COLUMN"
    )
    labels: list[str] | None = option(
        "the labels in the order of the teacher's classes. For a teacher whose "
        "classes are LABEL_0 and so on, or have other names than your labels.",
        metavar="NAME",
        pages=TASK,
    )
    regression: bool = option(
        "labels are scores, not classes",
        default=False,
        rare=True,
        pages=TASK,
    )


@dataclasses.dataclass
class TaskOptions(TableOptions):
    """task"""

    PAGES = ENCODERS

    task: str | None = option(
        "the task: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, race, "
        "polyphone or one of kdkit list. "
        "Or a TOML file that describes your tables.",
        metavar="TASK",
    )
    data_dir: File | None = option(
        "the folder with the task's data, such as SST-2/, MRPC/ or RACE/. "
        "Defaults to TensorFlow Datasets, which has GLUE.",
        metavar="DIR",
    )


@dataclasses.dataclass
class TextOptions:
    """running text"""

    PAGES = FAMILIES

    corpus: list[File] | None = option(
        "running text, one text per line. Or tables with a header, with "
        "--column. For encoder-decoders, sentences: one file for each of "
        "--languages."
    )
    column: str | None = option(
        "the column with the texts in tab-separated tables",
        rare=True,
        pages=FAMILIES + TEXTS,
    )


@dataclasses.dataclass
class CorpusOptions(TextOptions):
    """running text"""

    PAGES = FAMILIES

    held_out: list[File] | None = option(
        "text to measure on. Defaults to every 100th text of --corpus, which "
        "is then not used for training.",
        rare=True,
    )


@dataclasses.dataclass
class BenchmarkTextOptions:
    """text for decoders"""

    PAGES = ("gpt2",)

    one_document: bool | None = option(
        "read each file as one document, not one text per line. For WikiText "
        "and Penn Treebank."
    )
    detokenizer: str | None = option(
        "first turn a benchmark's tokens back into running text",
        choices=("ptb", "wikitext"),
    )


@dataclasses.dataclass
class SentenceOptions:
    """pairs for encoder-decoders"""

    PAGES = ("mass",)

    pairs: list[File] | None = option(
        "pairs of source and target. Two files whose lines belong together; "
        "or, with --pair-columns, tables with a header."
    )
    pair_columns: list[str] | None = option(
        "the columns with source and target",
        count=2,
        metavar="SOURCE TARGET",
    )
    languages: list[str] | None = option(
        "the languages, such as en de. One for each file of --corpus, or "
        "source and target of --pairs. With both options: the source's, the "
        "target's, then those of further files."
    )


@dataclasses.dataclass
class BeamOptions:
    """beam search"""

    num_beams: int | None = option(
        "the number of beams in beam search. Defaults to 4 for "
        "encoder-decoders. 1 is greedy search.",
        pages=TEXT,
    )
    length_penalty: float | None = option(
        "the exponent of the length penalty. A beam's score is its log "
        "probability divided by its length to this power. Defaults to 1.",
        metavar="P",
        pages=("mass",),
    )


@dataclasses.dataclass
class TransferOptions:
    """unlabelled text and augmented examples"""

    PAGES = TASK
    RARE = True

    unlabeled: list[File] | None = option(
        "text for the teacher to label. Files with one text per line, or "
        "tables with a header, with --unlabeled-columns. Examples of dev and "
        "test are left out."
    )
    unlabeled_columns: list[str] | None = option(
        "the columns with the text in these tables, two for pairs"
    )
    unlabeled_per_labeled: float | None = option(
        "unlabelled examples per labelled one in an epoch. Defaults to 1.",
        metavar="R",
    )
    augment: str | None = option(
        "also train on these augmented examples, a file from kdkit augment",
        metavar="FILE.tsv",
    )
    augment_model: Model | None = option(
        "make that file if it is missing, with this masked language model. "
        "See kdkit augment --model."
    )
    augment_vectors: File | None = option(
        "and with these word vectors. See kdkit augment --word-vectors."
    )


@dataclasses.dataclass
class CacheOptions:
    """teacher cache"""

    cache: str | None = option(
        "cache the teacher's outputs in this folder. Runs share it, also with "
        "other teachers. A teacher runs once on the same examples.",
        metavar="DIR",
    )
    cache_precision: str | None = option(
        "the precision of the cached outputs. Defaults to fp32.",
        rare=True,
        choices=("fp32", "bf16", "int8"),
    )


@dataclasses.dataclass
class SettingOptions:
    """settings"""

    set: list[str] = option(
        "change any setting, for example stages.prediction_layer.epochs=3 or "
        "stages.0.epochs=3. The same as field.path=value without --set. May "
        "be repeated.",
        default=[],
        metavar="FIELD=VALUE",
        assignments=True,
        rare=True,
    )


@dataclasses.dataclass
class StageOptions(SettingOptions):
    """training"""

    epochs: int | None = option(
        "epochs of the stage. For several stages, use stages.NAME.epochs=N. "
        "The same holds for --batch-size and --learning-rate."
    )
    batch_size: int | None = option("examples per update")
    learning_rate: float | None = option(
        "the peak learning rate", metavar="RATE"
    )
    max_length: Length | None = option(
        "the largest sequence length in tokens. Longer sequences are "
        "truncated. The same as data.sequence_length=N, or "
        "corpus.sequence_length=N for models on text."
    )


@dataclasses.dataclass
class RunOptions(StageOptions):
    """run"""

    run_dir: str | None = option(
        "the run's directory. An existing run continues.",
        required=True,
        metavar="RUN",
    )
    seed: Seed | None = option(
        "the seed for weights, dropout and order. Defaults to 0."
    )
    smoke: bool = option(
        "try tiny models on generated data, in under a minute",
        default=False,
    )
    config: File | None = option(
        "start from the settings in a run's config.json"
    )
    mixed_precision: str | None = option(
        "the precision of training. Models are measured and saved in "
        "float32. On CPUs with AMX, jit_compile=false makes it faster.",
        rare=True,
        choices=("bfloat16", "float16"),
    )
    strategy: str | None = option(
        "train on several devices, which share each batch. mirrored: all "
        "GPUs of this machine, or the logical CPUs of --devices. "
        "multi_worker: the devices of several machines, with one process on "
        "each, started by srun or with TF_CONFIG. Sets jit_compile=false.",
        rare=True,
        choices=("mirrored", "multi_worker"),
    )
    devices: int | None = option(
        "for --strategy: use the first N GPUs. Without GPUs, use the CPU as "
        "N logical devices. Defaults to all GPUs.",
        rare=True,
    )


# For verbs that make many runs.
ONE_MACHINE = changed(RunOptions, "strategy", choices=("mirrored",))


@dataclasses.dataclass
class ForceOptions:
    """checks"""

    force: bool = option(
        "continue in spite of errors in the first checks. See kdkit doctor.",
        default=False,
        rare=True,
    )


@dataclasses.dataclass
class ShardOptions:
    """parts"""

    shard: str | None = option(
        "do part I, from 1, of the N parts that N processes share.",
        metavar="I/N",
    )


@dataclasses.dataclass
class ModelChoiceOptions:
    """model"""

    arm: str | None = option(
        "the model of a run directory. Defaults to the student. The teacher "
        "may also be outside of the run.",
        choices=("student", "teacher", "control"),
    )
    tokenizer: Model | None = option(
        "the tokenizer's place, for a file outside a run"
    )
    sequence_length: Length | None = option(
        "the largest sequence length in tokens. Defaults to the length of "
        "the run, the preset or the task."
    )


@dataclasses.dataclass
class MeasuredOptions(
    ModelChoiceOptions,
    TaskOptions,
    TextOptions,
    BenchmarkTextOptions,
    SentenceOptions,
    BeamOptions,
):
    """measurement"""

    split: str | None = option(
        "the task's split. Defaults to dev.", metavar="SPLIT"
    )
    stride: int | None = option(
        "start each sequence so many tokens after the one before. A smaller "
        "stride gives more context to each prediction. Defaults to the "
        "sequence length.",
        pages=("gpt2",),
    )


@dataclasses.dataclass
class PretrainedModelOptions:
    """model and recipe"""

    model: Model | None = option(
        "the model to continue: a preset, a directory or a run. An encoder "
        "without a head gets a new one."
    )
    student: str | None = option(
        "instead of --model: a student preset with random weights. See kdkit "
        "list.",
        metavar="PRESET",
    )
    tokenizer: Model | None = option(
        "the place of the tokenizer for --student. A run, a preset directory "
        "or a vocabulary file: word pieces, one per line (.txt), or byte "
        "pairs with the merges next to it (vocab.json, encoder.json)."
    )
    vocabulary_size: int | None = option(
        "instead of --tokenizer: train a byte-pair tokenizer of N tokens on "
        "the text. For decoders and encoder-decoders.",
        pages=TEXT,
    )
    recipe: str | None = option(
        "learn from --teacher with a recipe's stages on text. See kdkit list.",
        metavar="RECIPE",
    )
    teacher: Model | None = option("for --recipe: the model to learn from")
    stage: str | None = option(
        "for --recipe: the stage to run. Defaults to the first, or with "
        "--pairs to the last.",
        pages=TEXT,
    )
    parity: str | None = option(
        "for --recipe: the variant. See kdkit show RECIPE.", rare=True
    )


@dataclasses.dataclass
class RecipeOptions:
    """recipe"""

    recipe: str | None = option(
        "a name from kdkit list",
        positional=True,
        required=True,
        metavar="RECIPE",
    )
    stages: list[str] | None = option(
        "run only these stages of the recipe", rare=True, pages=TASK
    )
    parity: str | None = option(
        "the variant of the recipe. See kdkit show RECIPE.",
        rare=True,
        pages=ENCODERS,
    )


@dataclasses.dataclass
class TeacherOptions:
    """teacher"""

    teacher: list[Model] | None = option(
        "the teacher, or several on a task. These have one tokenizer. A run of "
        "kdkit train-teacher, a preset directory of a classifier, or a .keras "
        "file. With --model, a model trained on the task's text. For "
        "sentence_embedding, static_embedding and multilingual: a "
        "sentence-transformers directory, a run or another encoder."
    )
    encoder: Model | None = option(
        "instead of --teacher: fine-tune this encoder first. The teacher is "
        "in RUN/teacher_run. If the recipe learns from the encoder on "
        "--corpus, the encoder is pretrained before, in RUN/pretrained_run. "
        "Both runs have seed 0. Change them with teacher.field=value and "
        "pretrained.field=value.",
        pages=TASK,
    )
    teacher_weights: list[float] | None = option(
        "one weight for each of several teachers. Defaults to equal weights.",
        rare=True,
        metavar="W",
        pages=TASK,
    )
    pretrained: Model | None = option(
        "the pretrained encoder: the teacher on --corpus, and the source of "
        "a student's layers. Defaults to the encoder that the teacher was "
        "fine-tuned from.",
        rare=True,
        pages=FAMILIES,
    )


@dataclasses.dataclass
class StudentOptions:
    """student"""

    student: Model | None = option(
        "a student preset, or a checkpoint to start from. See kdkit list. "
        "Defaults to the recipe's student.",
        pages=FAMILIES + LAYERED,
    )
    num_layers: int | None = option(
        "how many layers the student takes from an encoder. Defaults to half "
        "of the encoder's, for multilingual to all.",
        pages=TASK + LAYERED,
    )
    control: bool = option(
        "compare with the same student without distillation. It learns from "
        "the labels alone, with the same number of updates. For sentence "
        "encoders without labels: the student before training is measured, and "
        "random weights learn from the texts alone.",
        default=False,
        pages=ENCODERS,
    )
    word_vectors: File | None = option(
        "word vectors for a BiLSTM's embeddings. A text file such as "
        "glove.6B.300d.txt. Defaults to random embeddings.",
        rare=True,
        pages=TASK,
    )
    general: str | None = option(
        "start from the student of kdkit pretrain --recipe. With "
        "--corpus, the run is made there if it is not finished.",
        metavar="RUN",
        pages=FAMILIES,
    )


@dataclasses.dataclass
class DistillationOptions(
    RecipeOptions,
    TaskOptions,
    TeacherOptions,
    StudentOptions,
    CorpusOptions,
    TransferOptions,
    CacheOptions,
):
    """teacher, student, recipe and data of a distillation"""


@dataclasses.dataclass
class DecoderOptions(BenchmarkTextOptions, SentenceOptions):
    """models on text (--model gpt2, llama3, qwen3 or mass)"""

    model: str = option(
        "family: bert (default), gpt2, llama3, qwen3 or mass. bert means "
        "encoders on a task.",
        default="bert",
        metavar="FAMILY",
        pages=FAMILIES,
    )
    decoder: Model | None = option(
        "the teacher to pretrain. A preset with random weights (see kdkit "
        "list), or a model to continue.",
        pages=TEXT,
    )
    tokenizer: Model | None = option(
        "the student's tokenizer, or that of random weights. A run, a preset "
        "directory, for GPT-2 a vocabulary of byte pairs (vocab.json, "
        "encoder.json), or for multilingual a file of word pieces (.txt). It "
        "is for --decoder, or for the student of multilingual.",
        pages=TEXT + TRANSLATIONS,
    )
    vocabulary_size: int | None = option(
        "instead of --tokenizer: train one with N tokens. It is trained on "
        "--corpus, or on --parallel, there with 16,000 tokens by default.",
        pages=TEXT + TRANSLATIONS,
    )
    task_text: list[File] | None = option(
        "the task's text, which the student is trained for", pages=("gpt2",)
    )
    task_held_out: list[File] | None = option(
        "the task's text or pairs to measure on. Defaults to every 100th "
        "text of --task-text or --pairs.",
        pages=TEXT,
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
