"""The runs of the contract: data, command lines, what each needs before it.

Command lines may be respelled as the command line changes; what they mean may
not. `--set` names stages, so that it does not depend on how they are stored.
"""

import contextlib
import dataclasses
import json
import os
import shutil

import filelock
import keras
import keras_hub
import numpy as np

from kit.adapter import command, command_apart, recorded_batches
from kit.helpers import as_users, eager_steps

WORDS = (
    "a", "man", "runs", "dog", "sleeps", "on", "the", "grass", "two", "men",
    "good", "bad", "fine", "poor", "film", "plot", "is", "was", "not", "very",
)  # fmt: skip
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".")
LENGTH = 16  # of rows, in tokens
TEXTS = 100  # generated ones, in each language


@dataclasses.dataclass(frozen=True)
class Run:
    """A command line that trains.

    Args:
        words: tuple of strings. `@NAME` is a file or run of the workspace.
        needs: tuple of strings. The runs and commands before it.
        kind: string. What `adapter.load` is told.
        models: tuple of strings. Where in its directory models are.
        apart: bool. Whether it needs a process of its own; its steps are
            traced there, as users' are.
        traced: bool. Whether its steps are traced in this process.
        tolerance: float. What its numbers may differ by, see goldens/README.md.
    """

    words: tuple
    needs: tuple = ()
    kind: str = "classifier"
    models: tuple = (".",)
    apart: bool = False
    traced: bool = False
    tolerance: float = 1e-5


def settings(**values):
    """`--set` for each; two underscores are a dot."""
    return tuple(
        word
        for name, value in values.items()
        for word in ("--set", f"{name.replace('__', '.')}={value}")
    )


def stage(name, epochs=2, learning_rate=2e-3, batch_size=16):
    """The settings of a stage: short, and with a rate that moves weights."""
    return settings(
        **{
            f"stages__{name}__epochs": epochs,
            f"stages__{name}__learning_rate": learning_rate,
            f"stages__{name}__batch_size": batch_size,
        }
    )


def sizes(part, num_layers, hidden_dim, dropout):
    """The settings of a model with random weights."""
    return settings(
        **{
            f"{part}__num_layers": num_layers,
            f"{part}__hidden_dim": hidden_dim,
            f"{part}__num_heads": 4,
            f"{part}__intermediate_dim": 2 * hidden_dim,
            f"{part}__max_sequence_length": 32,
            f"{part}__dropout": dropout,
        }
    )


PLAIN = settings(training__jit_compile="false")
ON_TASK = ("--task", "sst2", "--data-dir", "@data")
ROWS = settings(data__sequence_length=LENGTH)
ON_TEXT = ("--corpus", "@corpus.txt", *settings(corpus__sequence_length=LENGTH))
TAUGHT = (*ON_TASK, "--teacher", "@teacher", *ROWS, *PLAIN)
SMALL = sizes("student", 2, 16, 0.0)
TINYBERT = (
    *("distill", "tinybert", *TAUGHT, *SMALL),
    *stage("intermediate_layer"),
    *stage("prediction_layer"),
)
# Of recipes with one stage.
SHORT = (
    *("--epochs", "2", "--batch-size", "16", "--learning-rate", "2e-3"),
    *("--max-length", LENGTH, *PLAIN),
)
ENCODED = ("--teacher", "@encoder", "--pooling", "mean", *SHORT)
PAIRS = ("@pairs.tsv", "--text-column", "a", "b", "--label-column", "score")
ON_TEXTS = (*ENCODED, "--texts", "@corpus.txt", "--dev", *PAIRS)
# Names of the directories are those that the steps have in a run on text.
STEPS = (".", "pretrained_run", "teacher_run", "general_run")

RUNS = {
    # masked text, from random weights, with dropout
    "pretrained": Run(
        (
            *("pretrain", *ON_TEXT, "--tokenizer", "@encoder"),
            *("--student", "bert_3_layer_en_uncased", *PLAIN),
            *sizes("student", 3, 32, 0.1),
            *settings(corpus__held_out_every=10),
            *stage("pretraining"),
        ),
        kind="masked",
    ),
    # labels
    "fine_tuned": Run(
        (
            *("train-teacher", *ON_TASK, "--model", "@encoder"),
            *(*ROWS, *PLAIN, *stage("fine_tuning")),
        ),
    ),
    "fine_tuning": Run(
        (
            *("distill", "fine_tuning", *TAUGHT, "--num-layers", "2"),
            *stage("fine_tuning"),
        ),
    ),
    # labels and teacher
    "tinybert": Run(TINYBERT, traced=True),
    "pkd": Run(
        (
            *("distill", "pkd", *TAUGHT, "--num-layers", "2"),
            *stage("fine_tuning"),
            *settings(stages__fine_tuning__gradient_accumulation_steps=2),
        )
    ),
    "vanilla_kd": Run(
        (
            *("distill", "vanilla_kd", *TAUGHT, "--num-layers", "2"),
            *("--control", *stage("fine_tuning"), *settings(training__seed=3)),
            *settings(data__num_buckets=2),
        )
    ),
    "distilled_bilstm": Run(
        (
            *("distill", "distilled_bilstm", *TAUGHT),
            *stage("prediction_layer"),
            *settings(
                student__units=8,
                student__embedding_dim=16,
                student__intermediate_dim=16,
            ),
        )
    ),
    # masked text with a teacher, then labels
    "distilbert": Run(
        (
            *("distill", "distilbert", *TAUGHT, *ON_TEXT, "--num-layers", "2"),
            *("--pretrained", "@pretrained"),
            *(*stage("pretraining"), *stage("fine_tuning")),
        ),
        needs=("pretrained",),
        traced=True,
    ),
    "cached": Run((*TINYBERT, "--cache", "@cache"), needs=("cache_verb",)),
    "augmented": Run(
        (
            *("distill", "vanilla_kd", *TAUGHT, "--num-layers", "2"),
            *("--augment", "@augmented.tsv", *stage("fine_tuning")),
        ),
        needs=("augment_verb",),
    ),
    "two_devices": Run(
        (*TINYBERT, "--strategy", "mirrored", "--devices", "2"),
        apart=True,
    ),
    # labels and teacher, then rounding
    "quantized": Run(
        (
            *("distill", "pkd", *TAUGHT, "--num-layers", "2"),
            *("--quantize", "static_int8", *stage("fine_tuning")),
            *stage("quantization", learning_rate=5e-4),
        ),
        tolerance=5e-2,
    ),
    # a teacher's vectors of texts and of translations, scores of candidates
    "sentence_embedding": Run(
        ("distill", "sentence_embedding", *ON_TEXTS, "--num-layers", "2"),
        kind="embedder",
    ),
    "static_embedding": Run(
        (
            *("distill", "static_embedding", *ON_TEXTS),
            *settings(student__dimensions=16),
        ),
        kind="embedder",
        traced=True,
    ),
    "multilingual": Run(
        (
            *("distill", "multilingual", *ENCODED, "--vocabulary-size", "80"),
            *("--parallel", "@lines.en", "@lines.xx"),
            *settings(data__held_out_every=8),
        ),
        kind="embedder",
    ),
    "reranker_to_embedder": Run(
        (
            *("distill", "reranker_to_embedder", "--teacher", "@teacher"),
            *("--candidates", "@candidates.tsv", "--num-layers", "2"),
            *("--control", *SHORT),
            *settings(data__pair_length=32, data__held_out_every=4),
        ),
        kind="embedder",
        traced=True,
    ),
    # next tokens: four steps
    "next_tokens": Run(
        (
            *("distill", "lightpaff", "--model", "gpt2", "--smoke"),
            *settings(stages__fine_tuning__epochs=2),
        ),
        kind="text",
        models=STEPS,
        traced=True,
    ),
    # spans, then pairs: four steps
    "spans_and_pairs": Run(
        (
            *("distill", "lightpaff", "--model", "mass", "--smoke"),
            *settings(
                steps__pretrained__corpus__max_texts=TEXTS,
                steps__teacher__corpus__max_texts=TEXTS,
                steps__general__corpus__max_texts=TEXTS,
                corpus__max_texts=TEXTS,
                stages__fine_tuning__epochs=2,
            ),
        ),
        kind="text",
        models=STEPS,
    ),
}
# What is made without a run directory.
COMMANDS = {
    "cache_verb": Run((*("cache", *TINYBERT[1:]), "--cache", "@cache")),
    "augment_verb": Run(
        (
            *("augment", *ON_TASK, "--model", "@pretrained", "--copies", "2"),
            *("--output", "@augmented.tsv"),
        ),
        needs=("pretrained",),
    ),
}


def folder_of_all_workers(tmp_path_factory):
    """A folder that the processes of one run of pytest share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


class Workspace:
    """A folder of data and of runs, each made when it is first asked for.

    Several processes may share it: each run is made once, by the one that
    comes first. Tests that write into a run copy it.

    Args:
        path: path of a folder that only this class writes.
    """

    def __init__(self, path):
        self.path = path
        path.mkdir(exist_ok=True)
        with self._made("data") as is_made:
            if not is_made:
                write_data(path)

    @contextlib.contextmanager
    def _made(self, name):
        """Locks a name; yields whether it is there, and notes its files."""
        note = self.path / f"{name}.made"
        with filelock.FileLock(self.path / f"{name}.lock"):
            is_made = note.exists()
            yield is_made
            if not is_made:
                partial = self.path / f"{name}.partial"
                partial.write_text(json.dumps(self._files(name)))
                partial.replace(note)

    def _files(self, name):
        """The size and the time of each file of what has this name."""
        folder = self.path / name
        return {
            str(file.relative_to(folder)): [
                file.stat().st_size,
                file.stat().st_mtime_ns,
            ]
            for file in sorted(folder.rglob("*"))
            if file.is_file() and not file.name.endswith(".lock")
        }

    def changed(self):
        """The names of what is not as it was made; each is told once."""
        found = []
        for note in sorted(self.path.glob("*.made")):
            files = json.dumps(self._files(note.stem))
            if note.read_text() != files:
                note.write_text(files)
                found.append(note.stem)
        return found

    def make(self, name):
        """Makes a run, or what it needs; returns its directory.

        Raises:
            RuntimeError: if the command failed.
        """
        run = {**RUNS, **COMMANDS}[name]
        for needed in run.needs:
            self.make(needed)
        with self._made(name) as is_made:
            if not is_made:
                answer, batches = self._run(name, run)
                if answer.status:
                    raise RuntimeError(f"{name}: {answer}")
                told = {"out": answer.out, "batches": batches}
                self._told(name).write_text(json.dumps(told))
        return self.path / name

    def _run(self, name, run):
        words = self.words(run.words)
        if name in RUNS:
            words += ["--run-dir", self.path / name]
        if run.apart:
            return command_apart(words, self.path), None
        keras.backend.clear_session()  # names and seeds as at a start
        steps = contextlib.nullcontext if run.traced else eager_steps
        with as_users(), recorded_batches() as batches, steps():
            return command(words), batches

    def _told(self, name):
        return self.path / f"{name}.told.json"

    def told(self, name):
        """The output of what was made, and its batches' digests by step."""
        self.make(name)
        return json.loads(self._told(name).read_text())

    def exported_run(self, name, *more):
        """A copy of a run with files in it, `NAME_exported`."""
        run = self.path / f"{name}_exported"
        with self._made(run.name) as is_made:
            if not is_made:
                self.copy(name, run)
                self.run("export", f"@{run.name}", *more)
        return run

    def exported(self, name, *more):
        """The folder of these files in no run, `NAME_exports`."""
        folder = self.path / f"{name}_exports"
        run = self.exported_run(name, *more)
        with self._made(folder.name) as is_made:
            if not is_made:
                shutil.copytree(run / "exports", folder)
        return folder

    def run(self, *words):
        """What a command prints that must succeed."""
        answer = command(self.words(words))
        assert answer.status == 0, answer
        return answer.out

    def copy(self, name, to):
        """A copy of a run, for a test that writes into it."""
        return shutil.copytree(self.make(name), to)

    def words(self, words):
        """A command line with places in it instead of `@NAME`."""
        return [
            str(self.path / word[1:]) if word[:1] == "@" else word
            for word in map(str, words)
        ]

    def without_place(self, nested):
        """The same nested dicts and lists, with `WORKSPACE` for its path."""
        if isinstance(nested, dict):
            return {one: self.without_place(nested[one]) for one in nested}
        if isinstance(nested, list):
            return [self.without_place(one) for one in nested]
        if isinstance(nested, str):
            return nested.replace(str(self.path), "WORKSPACE")
        return nested


def write_data(path):
    """Writes an encoder, a teacher, a task that it solves, texts and tables.

    The weights are drawn, not trained: what learns from these models does not
    depend on the last digit of another run.
    """
    (path / "vocabulary.txt").write_text("\n".join([*VOCABULARY, ""]))
    write_texts(path)
    backbone, teacher = draw_models()
    backbone.save_to_preset(str(path / "encoder"))
    teacher.preprocessor.tokenizer.save_to_preset(str(path / "encoder"))
    teacher.save_to_preset(str(path / "teacher"))
    folder = path / "data" / "SST-2"
    folder.mkdir(parents=True)
    for split, number, seed in (("train", 48, 0), ("dev", 16, 1)):
        texts = draw_texts(number, seed)
        labels = map(str, teacher.predict(texts, verbose=0).argmax(-1))
        lines = map("\t".join, zip(texts, labels, strict=True))
        (folder / f"{split}.tsv").write_text(
            "\n".join(["sentence\tlabel", *lines, ""])
        )


def write_texts(path):
    """Writes a text, translations, scored pairs, queries with candidates."""
    texts = draw_texts(120, 2)
    pairs = zip(texts[:24], draw_texts(24, 3), strict=True)  # dev is left out
    candidates = zip(*(draw_texts(40, seed) for seed in (4, 5, 6)), strict=True)
    for name, lines in {
        "corpus.txt": texts,
        "lines.en": texts,
        "lines.xx": [text[::-1] for text in texts],
        "pairs.tsv": [
            "a\tb\tscore",
            *(
                f"{a}\t{b}\t{len({*a.split()} & {*b.split()})}"
                for a, b in pairs
            ),
        ],
        "candidates.tsv": [
            "query\tpositive\tnegative",
            *("\t".join(row) for row in candidates),
        ],
    }.items():
        (path / name).write_text("\n".join([*lines, ""]))


def draw_models():
    """An encoder and a classifier around it, with weights drawn by NumPy."""
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        list(VOCABULARY), lowercase=True
    )
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=3,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=32,
        dropout=0.1,
    )
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=LENGTH
    )
    teacher = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor
    )
    generator = np.random.default_rng(5)
    for weight in teacher.weights:
        drawn = generator.normal(size=weight.shape)
        if weight.name == "gamma":
            weight.assign(1 + 0.1 * drawn)
        elif len(weight.shape) == 1:
            weight.assign(0.1 * drawn)
        else:
            weight.assign(1.5 * drawn / np.sqrt(weight.shape[0]))
    backbone.token_embedding.embeddings.assign(
        generator.normal(size=(len(VOCABULARY), 32))
    )
    # Logits that differ from text to text; rounded, so that the last digits of
    # what is measured here do not matter.
    logits = teacher.predict(draw_texts(48, 0), verbose=0)
    kernel, bias = teacher.weights[-2:]
    kernel.assign(kernel * np.round(2 / logits.std(axis=0), 1))
    logits = teacher.predict(draw_texts(48, 0), verbose=0)
    bias.assign(bias - np.round(np.median(logits, axis=0), 2))
    return backbone, teacher


def draw_texts(number, seed):
    """Texts of 3 to 10 words."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(generator.choice(WORDS, int(generator.integers(3, 11))))
        for _ in range(number)
    ]
