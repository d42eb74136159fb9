# %% [markdown]
"""
# BERT to TinyBERT on your CSV

From a table of texts and labels to a verified int8 file.

[This page as a notebook](tinybert_on_your_csv.ipynb)
"""

# %% [markdown]
"""
## What you will build

You have a CSV file with texts and labels, and a BERT that you fine-tuned on
it. You will distil it into a TinyBERT ([Jiao et al.,
2020](https://arxiv.org/abs/1909.10351)) and write a file of a few megabytes
for a phone.

TinyBERT's recipe has two stages on your data:

1. **Intermediate layers**: the student imitates the teacher's embeddings,
   hidden states and attention.
2. **Prediction layer**: the student imitates the teacher's class
   probabilities.
"""

# %% [markdown]
"""
## Setup
"""

# %%
import csv

import keras
import keras_hub
import matplotlib.pyplot as plt

import kdkit

keras.utils.set_random_seed(0)

NUM_ROWS = 6000
TEACHER_EPOCHS = 4
INTERMEDIATE_EPOCHS = 3
PREDICTION_EPOCHS = 3

# %% [markdown]
"""
## Your table

Any CSV with a header works: one column of texts (or two, for pairs) and one of
labels, which may be words. TSV, JSON lines, Parquet and saved Hugging Face
datasets work the same way. [Your own data](../own_data.md) has the details.

This guide needs no download, so it writes a CSV of generated reviews.
"""

# %%
reviews = kdkit.data.generate_sentiment(NUM_ROWS, seed=0)
texts = list(reviews.texts[0])
words = [("negative", "positive")[label] for label in reviews.labels]

with open("reviews.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["review", "sentiment"])
    writer.writerows(zip(texts, words, strict=True))

with open("reviews.csv", encoding="utf-8") as file:
    for _ in range(5):
        print(file.readline().rstrip())

# %% [markdown]
r"""
## Your teacher

With a real task, fine-tune BERT on your table, in one command:

```bash
kdkit train-teacher --train reviews.csv --text-column review \
    --label-column sentiment --model bert_base_en_uncased \
    --run-dir runs/teacher
```

Then `teacher = "runs/teacher"`. A Hugging Face checkpoint that knows your task
works, too: `teacher = "my-checkpoint"`.

Here, a small BERT learns the same reviews from random weights in a minute.
"""

# %%
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
        max_sequence_length=128,
        dropout=0.0,
    ),
    num_classes=2,
    preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=24
    ),
    dropout=0.0,
)
teacher.compile(
    optimizer=keras.optimizers.AdamW(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = teacher.fit(
    texts[: NUM_ROWS * 9 // 10],
    reviews.labels[: NUM_ROWS * 9 // 10],
    batch_size=64,
    epochs=TEACHER_EPOCHS,
    shuffle=False,  # the generated texts have no order
    verbose=2,
)

# %% [markdown]
"""
## Distil

`kdkit.distill` runs the whole recipe: it reads the table, sets a tenth of it
aside as dev, checks what would ruin the run (such as another order of labels),
and trains both stages. `control=True` also trains the same student on the
labels alone, for as many updates, so that you see what the teacher adds.

With BERT-base as teacher, `student="tinybert_4_layer_en_uncased"` is the
paper's student, and you can omit `settings`. The small models of this guide
start from random weights and need larger learning rates.
"""

# %%
student = kdkit.models.student(
    {
        "num_layers": 2,
        "num_heads": 4,
        "hidden_dim": 32,
        "intermediate_dim": 128,
        "max_sequence_length": 128,
        "dropout": 0.0,
    },
    teacher=teacher,
)
result = kdkit.distill(
    teacher,
    student=student,
    data="reviews.csv",
    text_column="review",
    label_column="sentiment",
    recipe="tinybert",
    control=True,
    run_dir="runs/tinybert",
    settings={
        "stages.intermediate_layer.epochs": INTERMEDIATE_EPOCHS,
        "stages.intermediate_layer.learning_rate": 1e-3,
        "stages.prediction_layer.epochs": PREDICTION_EPOCHS,
        "stages.prediction_layer.learning_rate": 1e-3,
    },
    verbose=2,
)

# %% [markdown]
r"""
In the first stage the student's head is still random, so the accuracies there
mean nothing. The last line compares the outcome with the teacher and with the
control.

The same in a terminal, with the same stages, checks and files:

```bash
kdkit distill tinybert --train reviews.csv --text-column review \
    --label-column sentiment --teacher runs/teacher --control \
    --run-dir runs/tinybert
```

A run that was stopped continues when you repeat the call or the command.

## What it cost
"""

# %%
accuracies = {
    "teacher": result.teacher_metrics["accuracy"],
    "TinyBERT": result.metrics["accuracy"],
    "labels alone": result.control_metrics["accuracy"],
}
for name, accuracy in accuracies.items():
    print(f"{name}: {accuracy:.1%}")
for name, model in {"teacher": teacher, "student": result.student}.items():
    print(f"{name}: {model.count_params():,} parameters")

plt.figure(figsize=(6, 2))
plt.barh(list(accuracies), list(accuracies.values()))
plt.xlabel("accuracy on dev")
plt.xlim(0.4, 1)
plt.show()

# %% [markdown]
"""
This is one seed on generated data. The paper has two more steps before these
two stages: general distillation on plain text, and augmented examples.
[TinyBERT](../recipes/tinybert.md) has the commands. With all four, a student
on SST-2 kept 97.7 % of its teacher's accuracy, in one run ([measured
results](../measured/results.md)).

## Use it, export it, report it
"""

# %%
print(result.student.predict(["the plot is never dull ."], verbose=0))

path = result.export("student.tflite", precision="int8")
print(f"{path.stat().st_size:,} bytes")
page = result.report()

# %% [markdown]
"""
`result.student` is a keras-hub model, and `runs/tinybert/student` its preset,
which loads without kdkit. The file was compared with the student on dev before
it got its name. `runs/tinybert/report.html` has curves, sizes, and examples on
one page.

## Next

- [From a fine-tuned BERT to an Android app](from_run_to_app.md): the file in
  MediaPipe, its latency, and a model card.
- [What is checked before a run](../doctor.md): `kdkit doctor` with the same
  options finds mistakes before you train.
"""
