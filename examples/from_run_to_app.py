# %% [markdown]
"""
# From a fine-tuned BERT to an Android app

Distil, measure, export, open with MediaPipe, benchmark and share.

[This page as a notebook](from_run_to_app.ipynb)
"""

# %% [markdown]
"""
## What you will build

You have a fine-tuned BERT classifier, and an Android app that has to classify
texts without a server. After this guide the app opens a small int8 file with
one line of Kotlin, and you have

1. a **student**, and a control that shows what the teacher added;
2. **files** in several precisions, compared with the Keras model;
3. a **bundle** with test vectors, which the app's tests replay;
4. **latencies**, and a **model card** to publish the student with.

The guide runs the commands of a terminal. It needs kdkit (`pip install .` in a
clone of its repository) and `pip install mediapipe`, which opens the file in
Python as on Android.
"""

# %% [markdown]
"""
## Setup
"""

# %%
import contextlib
import csv
import io
import json
import pathlib
import shlex

import keras
import keras_hub
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from mediapipe.tasks.python import BaseOptions
from mediapipe.tasks.python import text as mediapipe_text
from tokenizers import Tokenizer

import kdkit
from kdkit.cli.main import main

keras.utils.set_random_seed(0)

NUM_TEXTS = 6000
NUM_DEV_TEXTS = 500
TEACHER_EPOCHS = 4
EPOCHS = 3
LENGTH = 24  # tokens that the app's file reads
TIMED_RUNS = 200


def terminal(command):
    """Runs a command of the terminal in this process.

    Prints its output with relative paths, and without the JSON line for
    programs.
    """
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = main(shlex.split(command)[1:])
    for line in output.getvalue().splitlines():
        if not line.startswith("{"):
            print(line.replace(f"{pathlib.Path.cwd()}/", ""))
    if status:
        raise SystemExit(f"The command failed with status {status}.")


# %% [markdown]
"""
## A fine-tuned BERT

If you have a fine-tuned checkpoint from Hugging Face and a table with texts
and labels, skip this section.

This guide needs no download. It generates reviews, trains a small BERT on
them, and writes it as a checkpoint that transformers loads, too.
"""


# %%
def write_table(path, split, number):
    reviews = kdkit.data.generate_sentiment(number, seed=0, split=split)
    labels = np.array(["negative", "positive"])[reviews.labels]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "sentiment"])
        writer.writerows(zip(reviews.texts[0], labels, strict=True))
    return reviews


pathlib.Path("reviews").mkdir()
train = write_table("reviews/train.csv", "train", NUM_TEXTS)
dev = write_table("reviews/dev.csv", "dev", NUM_DEV_TEXTS)

tokenizer = kdkit.models.word_piece_tokenizer(
    kdkit.data.sentiment_vocabulary(), True
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
report = kdkit.export.to_hugging_face(
    teacher,
    "my_checkpoint",
    tokenizer=tokenizer,
    class_names=("negative", "positive"),
)

# %% [markdown]
"""
## Distil

Patient KD starts the student from the teacher's layers and head. `--control`
also trains the same student on the labels alone, for as many updates. With a
BERT, omit the learning rate and `training.jit_compile=false`: XLA compiles for
longer than this small model trains.
"""

# %%
terminal(
    "kdkit distill pkd --teacher my_checkpoint --num-layers 2 --control "
    "--train reviews/train.csv --dev reviews/dev.csv --text-column review "
    "--label-column sentiment --run-dir runs/small "
    f"--max-length {LENGTH} --epochs {EPOCHS} --learning-rate 1e-3 "
    "training.jit_compile=false"
)

# %% [markdown]
"""
## Is it good enough?

The best epoch was chosen on dev, so the accuracy on dev is a little too high.
Measure the final models once on texts that no choice has seen. If the student
is not better than its control, the teacher added nothing, and fine-tuning a
small model would do.
"""

# %%
write_table("reviews/test.csv", "test", NUM_DEV_TEXTS)
for arm in "student", "control":
    terminal(f"kdkit evaluate runs/small --arm {arm} --test reviews/test.csv")

# %% [markdown]
"""
In this run the control is as good: labels alone suffice for the generated
reviews, so the teacher added nothing. With such numbers on your task, ship the
control: `kdkit export runs/small --arm control`.

## Export

`kdkit export` writes one file for each precision and compares it with the
Keras model. It does not write an fp32 file that differs, and it prints by how
much the other precisions differ. [Precisions of LiteRT
files](../quantization.md) compares fp32, fp16, int8, static_int8, int16x8 and
int4. For a phone's CPU, begin with int8.

A file reads texts of one length, `--max-length` of the training: a shorter
file is faster, and longer texts are cut. `--license` is for the model card,
and defaults to the license of the teacher's checkpoint.
"""

# %%
terminal("kdkit export runs/small --precision fp32 int8 --license apache-2.0")

# %% [markdown]
"""
The line about MediaPipe reports how many texts of dev its tokenizer splits as
the student's does. If MediaPipe cannot run a model, such as one for pairs of
texts, the line contains the reason. The app then needs a tokenizer of its own
and the files of the bundle ([On a phone](../phone.md)).

## The bundle

The app's developer gets one folder: the file, vocabulary, labels, tokenizer
and test vectors.
"""

# %%
terminal("kdkit export runs/small --bundle --license apache-2.0")
bundle = pathlib.Path("runs/small/exports/student-bundle")
manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
model = manifest["models"][0]["file"]
for path in sorted(bundle.iterdir()):
    print(f"{path.name}: {path.stat().st_size:,} bytes")

# %% [markdown]
"""
## Strings in, classes out

MediaPipe's `TextClassifier` opens the very file that the app will open. It
finds tokenizer, vocabulary and labels in it.
"""

# %%
classifier = mediapipe_text.TextClassifier.create_from_options(
    mediapipe_text.TextClassifierOptions(
        base_options=BaseOptions(model_asset_path=str(bundle / model))
    )
)


def app_answer(string):
    """Returns the class and its probability."""
    (head,) = classifier.classify(string).classifications
    best = max(head.categories, key=lambda category: category.score)
    return best.category_name, best.score


for string in "The plot is CLEVER!", "although the cast is warm, it was dull.":
    print(*app_answer(string), "-", string)

answers = [app_answer(string)[0] for string in dev.texts[0]]
truth = np.array(["negative", "positive"])[dev.labels]
accuracy = np.mean(np.array(answers) == truth)
print(f"accuracy of the app on dev: {accuracy:.1%}")
classifier.close()

# %% [markdown]
"""
## Replay the test vectors

Each line of `test_vectors.jsonl` has a text, its ids and its scores. An app
that tokenizes in its own code must give equal ids, and scores within the
manifest's tolerance. Here the replay uses LiteRT and `tokenizers`, without
kdkit and Keras. Your app's instrumented test also compares the ids.
"""

# %%
pieces = Tokenizer.from_file(str(bundle / "tokenizer.json"))
runner = Interpreter(str(bundle / model)).get_signature_runner()
vectors = (bundle / "test_vectors.jsonl").read_text("utf-8").splitlines()
for line in vectors:
    vector = json.loads(line)
    encoding = pieces.encode(*vector["texts"])
    values = {
        "token_ids": encoding.ids,
        "segment_ids": encoding.type_ids,
        "padding_mask": encoding.attention_mask,
    }
    inputs = {name: np.array([row], "int32") for name, row in values.items()}
    (scores,) = runner(**inputs).values()
    np.testing.assert_allclose(
        scores[0],
        vector["outputs"][model]["scores"],
        atol=manifest["tolerance"],
    )
print(f"{len(vectors)} test vectors agree.")

# %% [markdown]
"""
## Latency

`kdkit benchmark` measures the run's files in turns, one text at a time on one
thread. These times are from a busy machine, and from a model with 0.1 million
parameters: measure your own. `--end-to-end` adds the time from a string to a
class.
"""

# %%
terminal(f"kdkit benchmark runs/small --runs {TIMED_RUNS} --end-to-end")

# %% [markdown]
"""
On an Android phone with USB debugging, `adb` runs TensorFlow's
`benchmark_model` with the same files, and the run's report shows the phone's
times. [Measuring latency](../latency.md) links the program. This page was
built without a phone, so the command was not run here:

```bash
kdkit benchmark runs/small --adb --benchmark-model benchmark_model
```

## The app

Copy `student-int8.tflite` from the bundle to `app/src/main/assets`, and add
one dependency:

```kotlin
// app/build.gradle.kts
dependencies {
    // Replace latest.release by the version that you have tested.
    implementation("com.google.mediapipe:tasks-text:latest.release")
}
```

Then a classification is one line. Create the classifier once, because it loads
the file:

```kotlin
import com.google.mediapipe.tasks.text.textclassifier.TextClassifier

val classifier = TextClassifier.createFromFile(context, "student-int8.tflite")
val categories = classifier.classify("A fine film").classificationResult()
    .classifications().first().categories() // categoryName(), score()
```

The Kotlin code was not compiled here.

## Share it

`runs/small/exports` contains a model card with metrics, control, files,
latencies, recipe, license and limits. It begins with
"""

# %%
card = pathlib.Path("runs/small/exports/README.md").read_text("utf-8")
print(card[: card.index("## Results")])

# %% [markdown]
"""
`kdkit push` uploads the student as a keras-hub preset, with its card.
`--dry-run` only lists the files, and `--yes` uploads them.
"""

# %%
terminal(
    "kdkit push runs/small hf://ada/small-reviews --dry-run "
    "--license apache-2.0"
)

# %% [markdown]
"""
## Next

- [In an Android app: MediaPipe Tasks](../mediapipe.md): texts with accents,
  and what MediaPipe cannot do.
- [On a phone](../phone.md): pairs of texts and other tokenizers, with LiteRT.
- [Quantisation-aware distillation](../quantization_aware.md): for files that
  are worse than the student.
- [Sharing a model](../sharing.md): a directory for transformers, licenses,
  uploads.
- [A language model](language_model.md) and [a translator](translator.md)
  export to files that read one token at a time.
"""
