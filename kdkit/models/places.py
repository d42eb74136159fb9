"""Finds models by their files. Only names of presets need Keras."""

import dataclasses
import pathlib
import re

from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.reading import read_json
from kdkit.late import keras_hub
from kdkit.models.conventions import COSINE, SETTINGS, Conventions

KAGGLE, HUGGING_FACE = "kaggle://", "hf://"  # where models are uploaded
MODEL_FILE = "model.keras"  # a whole model that keras-hub has no class for
HEAD_FILE = "head.keras"  # what follows the encoder of a preset
LABELS_FILE = "labels.json"  # the names of the classes
CARD = "kdkit.json"  # what keras-hub's files lack
CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
MODULES = "modules.json"  # the parts of a sentence-transformers model
# The settings of its transformer, named by the version that wrote them.
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "albert", "xlm-roberta")
)
UNNAMED = re.compile(r"LABEL_\d+")  # of classes in Hugging Face checkpoints
# The directories of models in a run.
ARMS = ("student", "teacher", "encoder", "decoder", "encoder_decoder")
RUN_FILE = "metrics.jsonl"  # of a run, whose `config.json` is no model's
# Kinds of models. The last ones are language models.
CLASSIFIER, EMBEDDER, ENCODER = "classifier", "embedder", "encoder"
LANGUAGE_MODELS = ("masked_lm", "decoder", "encoder_decoder")
# By the end of the class with the head, in keras-hub and in transformers.
TASK_CLASSIFIER = "TextClassifier"
CHECKPOINT_CLASSIFIER = "ForSequenceClassification"
KINDS = {
    TASK_CLASSIFIER: CLASSIFIER,
    CHECKPOINT_CLASSIFIER: CLASSIFIER,
    "TextEmbedder": EMBEDDER,
    "MaskedLM": "masked_lm",
    "ForPreTraining": "masked_lm",
    "CausalLM": "decoder",
    "LMHeadModel": "decoder",
    "Seq2SeqLM": "encoder_decoder",
}


@dataclasses.dataclass(frozen=True)
class Place:
    """What the files of a model contain. Each JSON file is read once.

    Args:
        source: string. The path or the name that the user gave.
        path: `pathlib.Path` of the model's directory, or of its file. For the
            name of a preset there are no such files.
    """

    source: str
    path: pathlib.Path
    _contents: dict = dataclasses.field(
        default_factory=dict, init=False, compare=False
    )

    @property
    def folder(self) -> pathlib.Path:
        """The directory of the model's files."""
        return self.path.parent if self.path.is_file() else self.path

    def read(self, name: str, kind=dict):
        """Returns the JSON in one of the model's files, empty without it."""
        file = self.folder / name
        if name not in self._contents and file.is_file():
            what = "the config of a model"
            self._contents[name] = read_json(file, what, kind=kind)
        return self._contents.get(name, kind())

    @property
    def config(self) -> dict:
        """The model's `config.json`, empty without one."""
        is_run = (self.folder / RUN_FILE).is_file()
        return {} if is_run or self.file is not None else self.read(CONFIG)

    @property
    def card(self) -> dict:
        """The entries that kdkit adds to a model's files."""
        return self.read(CARD)

    @property
    def modules(self) -> list:
        """The parts of a sentence-transformers model."""
        return self.read(MODULES, list)

    @property
    def settings(self) -> dict:
        """The kind, prompts and similarity of a sentence-transformers model."""
        found = {}
        for name in (*TRANSFORMER_FILES, SETTINGS):
            found |= self.read(name)
        return found

    @property
    def is_checkpoint(self) -> bool:
        """Whether it is a Hugging Face checkpoint."""
        own = self.config.keys() & {"model_type", "registered_name"}
        return own == {"model_type"}

    @property
    def file(self) -> pathlib.Path | None:
        """The file of a whole Keras model, if it is one."""
        if self.path.suffix == ".keras":
            return self.path
        file = self.path / MODEL_FILE
        return file if file.is_file() else None

    @property
    def files(self) -> pathlib.Path | None:
        """The directory or file of the model, `None` for a preset's name."""
        if not self.path.exists():
            return None
        found = self.config or self.modules or self.file
        if self.path.is_dir() and not found:
            raise UsageError(f"No model found in {self.source}.")
        return self.path

    @property
    def preset(self) -> str:
        """The directory or the name of a preset, for keras-hub."""
        if self.files is not None:
            return str(self.files)
        is_known = self.source in keras_hub.models.Backbone.presets
        if not is_known and "://" not in self.source:
            raise UsageError(
                f"There is no file, directory or preset {self.source}."
            )
        return self.source

    @property
    def head_class(self) -> str:
        """The end of the class of the model with its head, one of `KINDS`."""
        saved = [self.read("task.json").get("class_name", "")]
        for name in self.config.get("architectures") or saved:
            for ending in filter(name.endswith, KINDS):
                return ending
        return ""

    @property
    def is_cross_encoder(self) -> bool:
        """Whether sentence-transformers reads it as a cross-encoder."""
        task = self.settings.get("transformer_task")
        is_named = self.settings.get("model_type") == "CrossEncoder"
        return is_named or task == "sequence-classification"

    @property
    def kind(self) -> str:
        """What the model was saved as.

        One of `"classifier"`, `"embedder"`, `"masked_lm"`, `"decoder"` and
        `"encoder_decoder"`; or `"encoder"`, without a head or not known.
        """
        if self.modules and not self.is_cross_encoder:
            return EMBEDDER
        head = CLASSIFIER if self.has_head else ENCODER
        return KINDS.get(self.head_class) or self.card.get("kind", head)

    @property
    def has_head(self) -> bool:
        """Whether the head is in a Keras file next to the encoder."""
        return (self.folder / HEAD_FILE).is_file()

    @property
    def static_folder(self) -> pathlib.Path | None:
        """The folder of a `StaticEmbedding` of sentence-transformers."""
        for one in self.modules:
            if one["type"].endswith(".StaticEmbedding"):
                return self.path / one["path"]
        return None

    @property
    def num_classes(self) -> int | None:
        """The number of a classifier's logits, if it is in its files."""
        if self.head_class == TASK_CLASSIFIER:
            return self.read("task.json")["config"]["num_classes"]
        if self.head_class != CHECKPOINT_CLASSIFIER:
            return None
        count = self.config.get("num_labels", 2)  # transformers' default
        return len(self.config.get("id2label") or range(count))

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of a classifier's classes, in their order.

        They are in `labels.json`, or `id2label` of a Hugging Face checkpoint.
        Names such as `LABEL_0` do not count.
        """
        labels = self.read(LABELS_FILE)
        if labels:
            return tuple(labels["classes"])
        names = self.config.get("id2label")
        if names is None or self.head_class != CHECKPOINT_CLASSIFIER:
            return None
        ordered = [names[key] for key in sorted(names, key=int)]
        return None if any(map(UNNAMED.fullmatch, ordered)) else tuple(ordered)

    @property
    def conventions(self) -> Conventions:
        """The prompts and the similarity of an embedder."""
        found = self.settings
        return Conventions(
            found.get("prompts") or {},
            found.get("default_prompt_name"),
            found.get("similarity_fn_name") or COSINE,
        )


def find(source) -> Place:
    """Finds a model: the one of a run, in a directory, or a preset's name.

    Args:
        source: string or path of a run directory, a directory with a model, a
            file in one, or the name of a keras-hub preset; or a `Place`.
    """
    if isinstance(source, Place):
        return source
    path = pathlib.Path(source)
    for folder in map(path.joinpath, ARMS):
        if any((folder / name).is_file() for name in (CONFIG, MODEL_FILE)):
            return Place(str(source), folder)
    return Place(str(source), path)


def model_digest(place: str) -> str | None:
    """Returns the checksum of a model's files, or the name of a preset."""
    try:
        files = find(place).files
    except UsageError:
        return None
    if files is not None:
        return digest(files)
    return None if pathlib.Path(place).is_absolute() else str(place)
