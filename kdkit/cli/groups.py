"""Options that several verbs share, each once, in groups."""

import dataclasses
import typing

from kdkit.cli.parser import File
from kdkit.cli.parser import Model
from kdkit.cli.parser import changed
from kdkit.cli.parser import option
from kdkit.errors import shortened

LONGEST = 65536  # tokens of a row; models of the known families read far fewer
TASK, TEXT = ("bert",), ("gpt2", "mass")  # pages of models on tasks, on text


def a_seed(text: str) -> int:
    """Returns the seed that a text stands for."""
    from kdkit.training.model_settings import LARGEST_SEED
    from kdkit.training.model_settings import check_seed

    try:
        seed = int(text)
        check_seed(seed)
    except ValueError as error:
        raise ValueError(
            f"expected a seed from 0 to {LARGEST_SEED}, received {text!r}"
        ) from error
    return seed


def a_length(text: str) -> int:
    """Returns the length in tokens that a text stands for."""
    try:
        length = int(text)
    except ValueError:
        length = 0
    if not 1 <= length <= LONGEST:
        raise ValueError(
            f"expected a number of tokens from 1 to {LONGEST}, received "
            f"{shortened(text)}"
        )
    return length


Seed = typing.Annotated[int, a_seed]
Length = typing.Annotated[int, a_length]


@dataclasses.dataclass
class TaskOptions:
    """task"""

    PAGES = TASK

    task: str | None = option(
        "cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, sentiment "
        "(generated), race, polyphone, ... See kdkit list.",
        metavar="TASK",
    )
    data_dir: File | None = option(
        "the folder with SST-2/, MRPC/, RACE/ as they come. Defaults to "
        "TensorFlow Datasets, which has GLUE.",
        metavar="DIR",
    )


@dataclasses.dataclass
class TextOptions:
    """running text"""

    corpus: list[File] | None = option(
        "running text, one text a line. Or tables with a header (then with "
        "--column). For encoder-decoders sentences, a file for each of "
        "--languages."
    )
    column: str | None = option(
        "the column of tab-separated tables that holds the texts", rare=True
    )


@dataclasses.dataclass
class CorpusOptions(TextOptions):
    """running text"""

    held_out: list[File] | None = option(
        "text to measure on. Defaults to every 100th text of --corpus, which "
        "is then not trained on.",
        rare=True,
    )


@dataclasses.dataclass
class BenchmarkTextOptions:
    """text for decoders"""

    PAGES = ("gpt2",)

    one_document: bool | None = option(
        "the lines of a file follow each other. As those of WikiText and Penn "
        "Treebank do."
    )
    detokenizer: str | None = option(
        "make running text of a benchmark's words first",
        choices=("ptb", "wikitext"),
    )


@dataclasses.dataclass
class SentenceOptions:
    """pairs for encoder-decoders"""

    PAGES = ("mass",)

    pairs: list[File] | None = option(
        "texts and what is to be written for them. Two files whose lines "
        "belong together, or tables with a header or tfds:NAME:SPLIT of "
        "TensorFlow Datasets (then with --pair-columns)."
    )
    pair_columns: list[str] | None = option(
        "the columns or features of these", count=2, metavar="SOURCE TARGET"
    )
    languages: list[str] | None = option(
        "the languages, such as en de. One for each file of --corpus, or for "
        "the two sides of --pairs. With both, the source's first, then the "
        "target's, then those of further files."
    )


@dataclasses.dataclass
class BeamOptions:
    """beam search"""

    num_beams: int | None = option(
        "texts that a beam search keeps open. Defaults to 4 for "
        "encoder-decoders; 1 is greedy.",
        pages=TEXT,
    )
    length_penalty: float | None = option(
        "a text's score is its log probability over its length to this power. "
        "Defaults to 1.",
        metavar="P",
        pages=("mass",),
    )


@dataclasses.dataclass
class TransferOptions:
    """unlabelled text and augmented examples"""

    PAGES = TASK
    RARE = True

    unlabeled: list[File] | None = option(
        "text for the teacher to label. Files of one text a line, or tables "
        "with a header (then with --unlabeled-columns); rows of dev and test "
        "are left out."
    )
    unlabeled_columns: list[str] | None = option(
        "the columns of these tables that hold the text, two for pairs"
    )
    unlabeled_per_labeled: float | None = option(
        "unlabelled rows for each labelled one in an epoch. Defaults to 1.",
        metavar="R",
    )
    augment: str | None = option(
        "train on these augmented examples too. The file is as kdkit augment "
        "writes it.",
        metavar="FILE.tsv",
    )
    augment_model: Model | None = option(
        "make that file if it is missing, with this masked-language model. A "
        "run of kdkit pretrain."
    )
    augment_vectors: File | None = option(
        "and these word vectors, as kdkit augment --word-vectors"
    )


@dataclasses.dataclass
class CacheOptions:
    """teacher cache"""

    cache: str | None = option(
        "save the teacher's outputs there for later runs. The "
        "teacher runs only over rows that the cache lacks; runs with the same "
        "teacher share it.",
        metavar="DIR",
    )
    cache_precision: str | None = option(
        "how they are saved. Defaults to fp32.",
        rare=True,
        choices=("fp32", "bf16", "int8"),
    )


@dataclasses.dataclass
class TeacherFileOptions:
    """exported teacher"""

    teacher_file: File | None = option(
        "fill the cache with the logits of an exported file of the teacher. "
        "It is .tflite, .onnx or a SavedModel. Its agreement with the teacher "
        "is measured first and saved with the cache.",
        rare=True,
        pages=TASK,
    )


@dataclasses.dataclass
class SettingOptions:
    """settings"""

    set: list[str] = option(
        "change any setting. The same as field.path=value alone, such as "
        "stages.prediction_layer.epochs=3 or stages.0.epochs=3; may be "
        "repeated.",
        default=[],
        metavar="FIELD=VALUE",
        assignments=True,
        rare=True,
    )


@dataclasses.dataclass
class StageOptions(SettingOptions):
    """training"""

    epochs: int | None = option(
        "epochs of the stage. Where there are several stages, "
        "stages.NAME.epochs=N, as for --batch-size and --learning-rate."
    )
    batch_size: int | None = option("rows per update")
    learning_rate: float | None = option(
        "the highest learning rate", metavar="RATE"
    )
    max_length: Length | None = option(
        "longest sequence in tokens. Longer ones are cut. The same as "
        "data.sequence_length=N, for models on text corpus.sequence_length=N."
    )


@dataclasses.dataclass
class RunOptions(StageOptions):
    """run"""

    run_dir: str | None = option(
        "where the run is saved, or continues", required=True, metavar="RUN"
    )
    seed: Seed | None = option(
        "seed of weights, dropout and order. Defaults to 0."
    )
    smoke: bool = option(
        "tiny models on generated sentences, in under a minute", default=False
    )
    config: File | None = option(
        "begin with the settings in a run's config.json"
    )
    mixed_precision: str | None = option(
        "the precision that training computes in. Models are measured and "
        "saved in float32 (on CPUs with AMX faster with jit_compile=false).",
        rare=True,
        choices=("bfloat16", "float16"),
    )
    strategy: str | None = option(
        "train on several devices, which share each batch. mirrored for all "
        "GPUs of this machine, or else the logical CPUs of --devices; "
        "multi_worker for those of several machines, one process on each, "
        "started by srun or with TF_CONFIG; sets jit_compile=false.",
        rare=True,
        choices=("mirrored", "multi_worker"),
    )
    devices: int | None = option(
        "with --strategy: the first N GPUs. Without GPUs, the CPU as N logical "
        "devices. Defaults to all GPUs.",
        rare=True,
    )


# Of the verbs that many runs are made by.
ONE_MACHINE = changed(RunOptions, "strategy", choices=("mirrored",))


@dataclasses.dataclass
class ForceOptions:
    """checks"""

    force: bool = option(
        "go on where the first checks find that the run would be ruined. See "
        "kdkit doctor.",
        default=False,
        rare=True,
    )


@dataclasses.dataclass
class ShardOptions:
    """parts"""

    shard: str | None = option(
        "do part I of N, counted from 1, which N processes share. launcher for "
        "the part that TF_CONFIG, srun or torchrun gives.",
        metavar="I/N",
    )


@dataclasses.dataclass
class ModelChoiceOptions:
    """model"""

    arm: str | None = option(
        "which model of a run directory. Defaults to the student.",
        choices=("student", "teacher", "control"),
    )
    tokenizer: Model | None = option(
        "where the tokenizer is, for a file outside a run"
    )
    sequence_length: Length | None = option(
        "longest sequence in tokens. Defaults to that of the run, the preset "
        "or the task."
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

    split: str | None = option("Defaults to dev.", metavar="SPLIT")
    stride: int | None = option(
        "begin each row so many tokens after the last one. More context "
        "precedes what is predicted. Defaults to a whole row.",
        pages=("gpt2",),
    )


@dataclasses.dataclass
class PretrainedModelOptions:
    """model and recipe"""

    model: Model | None = option(
        "the model to go on with: a preset, a directory or a run. An encoder "
        "without a head gets a new one."
    )
    student: str | None = option(
        "in place of --model: a student preset (see kdkit list). Its weights "
        "are random.",
        metavar="PRESET",
    )
    tokenizer: Model | None = option(
        "where the tokenizer of --student is. A run, a preset directory or a "
        "vocabulary file: of one piece a line (.txt), or of byte pairs with "
        "the merges next to it (vocab.json, encoder.json)."
    )
    vocabulary_size: int | None = option(
        "in place of --tokenizer: train one of N tokens on the text. For "
        "decoders and encoder-decoders, of byte pairs.",
        pages=TEXT,
    )
    separate_vocabularies: bool | None = option(
        "train a tokenizer of so many tokens on each side of --pairs. In place "
        "of a joint one.",
        pages=("mass",),
    )
    recipe: str | None = option(
        "learn from --teacher as a recipe does (see kdkit list)",
        metavar="RECIPE",
    )
    teacher: Model | None = option(
        "for --recipe: the model to learn from, trained on such text"
    )
    stage: str | None = option(
        "which of the recipe's stages. Defaults to the first, with --pairs to "
        "the last.",
        pages=TEXT,
    )
    parity: str | None = option(
        "for --recipe: a variant of it, see kdkit show RECIPE", rare=True
    )


@dataclasses.dataclass
class RecipeOptions:
    """recipe"""

    recipe: str | None = option(
        "a name in kdkit list",
        positional=True,
        required=True,
        metavar="RECIPE",
    )
    stages: list[str] | None = option(
        "only these stages of the recipe", rare=True, pages=TASK
    )
    parity: str | None = option(
        "a variant of the recipe, see kdkit show RECIPE", rare=True, pages=TASK
    )


@dataclasses.dataclass
class TeacherOptions:
    """teacher"""

    teacher: list[Model] | None = option(
        "the teacher, or several with one tokenizer. A run of train-teacher, a "
        "preset directory of a classifier, or a .keras file. With --model, a "
        "model trained on the task's text."
    )
    encoder: Model | None = option(
        "in place of --teacher: fine-tune this encoder first. In "
        "RUN/teacher_run; and where the recipe learns from it on --corpus, it "
        "is pretrained there before, in RUN/pretrained_run. Both have seed 0, "
        "and change with teacher.field=value and pretrained.field=value.",
        pages=TASK,
    )
    teacher_weights: list[float] | None = option(
        "how much each of several teachers counts. Defaults to the same.",
        rare=True,
        metavar="W",
        pages=TASK,
    )
    pretrained: Model | None = option(
        "the teacher on --corpus, whose layers a student is made of. Defaults "
        "to the encoder that the teacher was fine-tuned from.",
        rare=True,
    )


@dataclasses.dataclass
class StudentOptions:
    """student"""

    student: Model | None = option(
        "a student preset, or a checkpoint to start from. See kdkit list. "
        "Defaults to the recipe's."
    )
    num_layers: int | None = option(
        "layers of a student made of an encoder's own. Defaults to half of "
        "them.",
        pages=TASK,
    )
    control: bool = option(
        "also train the student on the labels alone. For the same number of "
        "updates.",
        default=False,
        pages=TASK,
    )
    word_vectors: File | None = option(
        "the vectors that the embeddings of a BiLSTM start from. A text file "
        "such as glove.6B.300d.txt. Defaults to random ones.",
        rare=True,
        pages=TASK,
    )
    general: str | None = option(
        "a run of kdkit pretrain --recipe to start from. With --corpus it is "
        "made there if it is not finished.",
        metavar="RUN",
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
    TeacherFileOptions,
):
    """what is distilled from what, by which recipe"""


@dataclasses.dataclass
class OnTasksAlone:
    """The options of models on text, for verbs that do not have them."""

    model: str = "bert"
    one_document: None = None
    detokenizer: None = None
    pairs: None = None
    pair_columns: None = None
    languages: None = None


@dataclasses.dataclass
class DecoderOptions(BenchmarkTextOptions, SentenceOptions):
    """models on text (--model gpt2, llama3 or mass)"""

    model: str = option(
        "bert (default), gpt2, llama3 or mass. bert is for encoders.",
        default="bert",
        metavar="FAMILY",
    )
    decoder: Model | None = option(
        "the teacher to pretrain. A preset with random weights (see kdkit "
        "list), or a model to go on with.",
        pages=TEXT,
    )
    tokenizer: Model | None = option(
        "where the tokenizer of a --decoder with random weights is. A run, a "
        "preset directory or, for GPT-2, a vocabulary of byte pairs "
        "(vocab.json, encoder.json).",
        pages=TEXT,
    )
    vocabulary_size: int | None = option(
        "in place of --tokenizer: train one of N tokens on --corpus", pages=TEXT
    )
    task_text: list[File] | None = option(
        "the text that the student is to be good at", pages=("gpt2",)
    )
    task_held_out: list[File] | None = option(
        "text or pairs to measure that on. Defaults to every 100th of "
        "--task-text or --pairs.",
        pages=TEXT,
    )
