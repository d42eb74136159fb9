"""
Title: From a run to an app
Author: kdkit authors
Date created: 2026/11/26
Last modified: 2026/11/26
Description: Export a student, measure the file, and rebuild what the app does.
Accelerator: None
"""

"""
## What you will build

A run directory contains a trained student. An app needs three things from it:

1. one **file** that a runtime on the device executes;
2. the **tokenizer**, rewritten in the app's language, because the file reads
   token ids and not texts;
3. the **names of the classes**, in the order of the logits.

You will write an int8 file for LiteRT, which runs on Android and iOS, measure
its size and latency, and write the app's part in plain Python, checked against
the student.
"""

"""
## Setup
"""

import json
import unicodedata

import keras
import keras_hub
import matplotlib.pyplot as plt
import numpy as np
from ai_edge_litert.interpreter import Interpreter

import kdkit

keras.utils.set_random_seed(0)

NUM_TEXTS = 6000
NUM_DEV_TEXTS = 500
TEACHER_EPOCHS = 4
EPOCHS = 3
LENGTH = 24  # tokens that the app's file reads
TIMED_RUNS = 200

"""
## A run

If you have a run of `kdkit distill`, skip this section and set `run` to its
directory:

```python
run = pathlib.Path("runs/tinybert")
```

Otherwise make one. This guide needs no download, so it generates reviews and
trains a small teacher on them. `kdkit.distill` does the same as the command
line: checks, training, and a run directory. It starts the student from two of
the teacher's four layers.
"""

train = kdkit.data.generate_sentiment(NUM_TEXTS, seed=0, split="train")
dev = kdkit.data.generate_sentiment(NUM_DEV_TEXTS, seed=0, split="dev")
names = np.array(["negative", "positive"])

tokenizer = keras_hub.tokenizers.BertTokenizer(
    kdkit.data.sentiment_vocabulary(), lowercase=True
)
teacher = keras_hub.models.BertTextClassifier(
    keras_hub.models.BertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=4,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=256,
        max_sequence_length=LENGTH,
        dropout=0.0,
    ),
    num_classes=2,
    preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=LENGTH
    ),
    dropout=0.0,
)
teacher.compile(
    optimizer=keras.optimizers.AdamW(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = teacher.fit(
    list(train.texts[0]),
    train.labels,
    batch_size=64,
    epochs=TEACHER_EPOCHS,
    shuffle=False,  # the generated texts have no order
    verbose=0,
)

result = kdkit.distill(
    teacher,
    data={
        "train": (list(train.texts[0]), names[train.labels]),
        "dev": (list(dev.texts[0]), names[dev.labels]),
    },
    recipe="vanilla_kd",
    run_dir="runs/reviews",
    epochs=EPOCHS,
    settings={
        "student.copy_from": "teacher",
        "student.copy_layers": [1, 2],
        "stages.0.learning_rate": 1e-3,
        "data.sequence_length": LENGTH,
    },
    verbose=0,
)
run = result.run_dir
print("student:", result.metrics)
print("teacher:", result.teacher_metrics)

"""
`run / "student"` is a keras-hub preset. It loads without kdkit:
"""

student = keras_hub.models.TextClassifier.from_preset(str(run / "student"))
print(student.predict(["the plot is clever ."], verbose=0))

"""
## Export

In a terminal, `kdkit export runs/reviews --precision fp32 int8
--sequence-length 24` writes the files into the run, and `kdkit benchmark
runs/reviews` measures them. In Python, `to_litert` writes one file:

- `sequence_length` fixes the length of the input. A fixed length is faster
  than a free one. Choose it so that few of your texts are longer.
- `precision="int8"` stores the weights in 8 bits. Activations are quantized
  when the file runs.
- `verification_data` are batches to compare the file with the Keras model. A
  file with wrong outputs is not written: the call raises an error.
"""

dev_texts = list(dev.texts[0])
batches = [
    student.preprocessor(dev_texts[start : start + 100])
    for start in range(0, len(dev_texts), 100)
]
files = {}
for name, model, precision in (
    ("teacher fp32", teacher, "fp32"),
    ("student fp32", student, "fp32"),
    ("student int8", student, "int8"),
):
    files[name] = name.replace(" ", "-") + ".tflite"
    report = kdkit.export.to_litert(
        model,
        files[name],
        precision=precision,
        sequence_length=LENGTH,
        verification_data=batches,
    )
    print(
        f"{name}: {report.size_bytes:,} bytes, largest difference from Keras "
        f"{report.max_abs_difference:.1e}, same answer on "
        f"{report.same_top_class:.1%} of {report.examples} texts"
    )

"""
The differences of the fp32 files are rounding. int8 changes the logits a
little more; what counts is the share of equal answers.

## Bytes and latency

`measure_latencies` runs the files in turns with random tokens, one text at a
time on one thread. The times are those of the machine that built this page. On
a phone, LiteRT's `benchmark_model` measures the same file.
"""

timings = kdkit.export.measure_latencies(list(files.values()), runs=TIMED_RUNS)
for name, timing in zip(files, timings, strict=True):
    print(
        f"{name}: {timing.median_ms:.2f} ms (95 % below {timing.p95_ms:.2f} "
        f"ms), {timing.size_bytes / 1e6:.2f} MB"
    )

figure, axes = plt.subplots(1, 2, figsize=(7, 2.2), sharey=True)
axes[0].barh(list(files), [one.median_ms for one in timings])
axes[0].set_xlabel("median latency in ms")
axes[1].barh(list(files), [one.size_bytes / 1e6 for one in timings])
axes[1].set_xlabel("size in MB")
figure.tight_layout()
plt.show()

"""
## What the app must do

The file has one signature. Its inputs are int32 arrays of shape `(1, 24)`, its
output the logits without softmax.
"""

interpreter = Interpreter(files["student int8"], num_threads=1)
runner = interpreter.get_signature_runner("serving_default")
for name, details in sorted(runner.get_input_details().items()):
    print(name, details["shape"], details["dtype"].__name__)

"""
The tokenizer is not in the file. Its vocabulary is in the run, one piece per
line; the number of a line, from 0, is the piece's id. The names of the classes
are there, too.
"""

assets = run / "student" / "assets" / "tokenizer"
pieces = (assets / "vocabulary.txt").read_text("utf-8").splitlines()
ids = {piece: number for number, piece in enumerate(pieces)}
labels = json.loads((run / "student" / "labels.json").read_text("utf-8"))
class_names = labels["classes"]
print(len(pieces), "pieces, such as", pieces[:5], pieces[-3:])
print(class_names)

"""
Now the app's own code. It uses no Keras and no kdkit, so you can translate it
line by line to Kotlin or Swift:

1. lower case;
2. split at white space, and make every punctuation character a word;
3. replace each word by its longest pieces from left to right. Pieces inside a
   word begin with `##`. A word without such pieces is `[UNK]`;
4. put `[CLS]` before the pieces and `[SEP]` after them, and fill up with 0.
"""


def is_punctuation(character):
    is_ascii = character.isascii() and character.isprintable()
    if is_ascii and not character.isalnum() and character != " ":
        return True
    return unicodedata.category(character).startswith("P")


def split_words(text):
    word = ""
    for character in text.lower() + " ":
        if character.isspace() or is_punctuation(character):
            if word:
                yield word
            word = ""
            if not character.isspace():
                yield character
        else:
            word += character


def word_pieces(word):
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in ids:
                found.append(ids[piece])
                start = end
                break
        else:
            return [ids["[UNK]"]]
    return found


def app_inputs(text):
    tokens = [id for word in split_words(text) for id in word_pieces(word)]
    tokens = [ids["[CLS]"], *tokens[: LENGTH - 2], ids["[SEP]"]]
    row = np.zeros((1, LENGTH), "int32")
    row[0, : len(tokens)] = tokens
    mask = (np.arange(LENGTH) < len(tokens)).astype("int32")[np.newaxis]
    return {
        "token_ids": row,
        "padding_mask": mask,
        "segment_ids": np.zeros_like(row),
    }


def app_answer(text):
    (logits,) = runner(**app_inputs(text)).values()
    return class_names[int(logits[0].argmax())]


for text in "The plot is CLEVER!", "although the cast is warm, it was dull.":
    print(app_answer(text), "-", text)

"""
## Check the app against the run

The run's tokenizer is the reference. Compare the ids of your app's code with
it on your own texts, and on texts that users type: capitals, punctuation,
unknown words, no words. An app that splits texts differently gives other
answers, and no error says so.
"""

texts = [*dev_texts, "DULL?!", "wasn't   it (mildly) funny...", "zzz 42", ""]
expected = student.preprocessor(texts)
for name in "token_ids", "padding_mask":
    received = np.concatenate([app_inputs(text)[name] for text in texts])
    np.testing.assert_array_equal(received, np.asarray(expected[name]))
print(f"The app's ids are the student's on all {len(texts)} texts.")

answers = [app_answer(text) for text in dev_texts]
accuracy = np.mean(np.array(answers) == names[dev.labels])
print(f"accuracy of the app on dev: {accuracy:.1%}")

"""
## Next

- Tokenizers with accents, control characters or Chinese characters have more
  rules: [On a phone](../phone.md) lists those of BERT, and `run / "student" /
  "kdkit.json"` those of your student.
- [ONNX](../onnx.md) writes the same student for servers.
- [A language model](language_model.md) and [a translator](translator.md)
  export to files that read one token at a time.
"""
