# %% [markdown]
"""
# Patient KD in ten lines of Keras

Train a student of half the depth with `compile` and `fit`.

[This page as a notebook](patient_kd.ipynb)
"""

# %% [markdown]
"""
## What you will build

A classifier with half of its teacher's layers, trained by Patient Knowledge
Distillation ([Sun et al., 2019](https://arxiv.org/abs/1908.09355)). The
student learns from three signals at once:

- the **labels**;
- the teacher's **soft labels**, its class probabilities at a temperature;
- the teacher's **[CLS] states** after its inner layers. The paper calls this
  part patient: the student imitates how the teacher gets to its answer.

`kdkit.Distiller` is a `keras.Model`. You compile it and fit it on texts, and
callbacks, mixed precision and `jit_compile` work as usual.
"""

# %% [markdown]
"""
## Setup
"""

# %%
import keras
import keras_hub
import matplotlib.pyplot as plt

import kdkit

keras.utils.set_random_seed(0)

NUM_TEXTS = 8000  # labelled texts for the teacher
NUM_DEV_TEXTS = 1000
NUM_STUDENT_TEXTS = 1600  # labelled texts for the student
TEACHER_EPOCHS = 4
EPOCHS = 6

# %% [markdown]
"""
## Data

Use your own texts here: a list of strings and an array of class numbers from
0. This guide needs no download, so it generates reviews whose sentiment
   depends on negation and contrast.
"""

# %%
train = kdkit.data.generate_sentiment(NUM_TEXTS, seed=0, split="train")
dev = kdkit.data.generate_sentiment(NUM_DEV_TEXTS, seed=0, split="dev")
texts, labels = list(train.texts[0]), train.labels
dev_data = list(dev.texts[0]), dev.labels

for text, label in zip(texts[2:6], labels[2:6], strict=True):
    print(label, text)

# %% [markdown]
"""
## A teacher

With a real task, the teacher is your fine-tuned checkpoint, a directory from
Hugging Face or keras-hub:

```python
loaded = kdkit.models.load_classifier("my-checkpoint", num_classes=2)
teacher = loaded.model  # and `teacher=loaded` in kdkit.models.student below
```

Here, a small BERT with four layers learns the task from random weights.
"""

# %%
tokenizer = keras_hub.tokenizers.BertTokenizer(
    kdkit.data.sentiment_vocabulary(), lowercase=True
)
sizes = {"num_heads": 4, "hidden_dim": 64, "intermediate_dim": 256}
sizes |= {"max_sequence_length": 24, "dropout": 0.0}

teacher = keras_hub.models.BertTextClassifier(
    keras_hub.models.BertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(), num_layers=4, **sizes
    ),
    num_classes=2,
    preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=24
    ),
    dropout=0.0,
)


def compile_for_labels(model):
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


compile_for_labels(teacher)
teacher_history = teacher.fit(
    texts,
    labels,
    batch_size=64,
    epochs=TEACHER_EPOCHS,
    shuffle=False,  # the generated texts have no order
    validation_data=dev_data,
    verbose=2,
)
_, teacher_accuracy = teacher.evaluate(*dev_data, verbose=0)

# %% [markdown]
"""
## The student on labels alone

You want to know what the teacher adds. So first train the same student without
it: two layers of the teacher's width, on the first 1,600 texts.
`kdkit.models.student(..., teacher=teacher)` gives it the teacher's vocabulary
and preprocessor.

In the paper, the student starts from the first layers of the *pretrained*
encoder. With a real checkpoint, add this line to `make_student`:

```python
kdkit.models.initialize_from_teacher(student, encoder, layers=[1, 2, 3])
```
"""

# %%
student_texts = texts[:NUM_STUDENT_TEXTS]
student_labels = labels[:NUM_STUDENT_TEXTS]


def make_student():
    keras.utils.set_random_seed(1)
    return kdkit.models.student({"num_layers": 2, **sizes}, teacher=teacher)


fit_settings = {
    "batch_size": 32,
    "epochs": EPOCHS,
    "validation_data": dev_data,
    "verbose": 2,
}
alone = make_student()
compile_for_labels(alone)
alone_history = alone.fit(
    student_texts, student_labels, shuffle=False, **fit_settings
).history

# %% [markdown]
"""
## Patient KD

These are the ten lines. Each `Objective` compares a *tap*, a named tensor
inside a model, of teacher and student:

- `SoftCrossEntropy` compares the logits at temperature 5, with weight α = 0.5.
  The labels have the rest, `hard_label_weight` = 1 − α.
- `PatienceMSE` compares normalized [CLS] states. The layer map `"skip"` is the
  paper's PKD-skip: for four and two layers, student layer 1 learns from
  teacher layer 2. `kdkit.layer_map("skip", 4, 2)` returns the pairs.
"""

# %%
print(kdkit.layer_map("skip", teacher_layers=4, student_layers=2))

student = make_student()
soft_labels = kdkit.Objective(
    kdkit.losses.SoftCrossEntropy(temperature=5.0), weight=0.5
)
patience = kdkit.Objective(
    kdkit.losses.PatienceMSE(), tap="cls_states", layer_map="skip", weight=0.1
)
distiller = kdkit.Distiller(
    teacher, student, [soft_labels, patience], hard_label_weight=0.5
)
compile_for_labels(distiller)
patient_history = distiller.fit(
    student_texts, student_labels, **fit_settings
).history

# %% [markdown]
"""
The logs contain each objective before its weight, and `loss`, their weighted
sum. `soft_cross_entropy` is 0 for a student that gives the teacher's
probabilities.

## What the teacher adds
"""

# %%
epochs = range(1, EPOCHS + 1)
plt.figure(figsize=(6, 3.5))
plt.axhline(teacher_accuracy, color="gray", linestyle="--", label="teacher")
plt.plot(epochs, patient_history["val_accuracy"], "o-", label="Patient KD")
plt.plot(epochs, alone_history["val_accuracy"], "o-", label="labels alone")
plt.xlabel("epoch")
plt.ylabel("accuracy on dev")
plt.legend()
plt.show()

for name, model in ("teacher", teacher), ("student", student):
    print(f"{name}: {model.count_params():,} parameters")

# %% [markdown]
"""
Both students read the same texts in the same number of updates. This is one
seed on generated data, with students that start from random weights. Students
that start from pretrained layers are good without a teacher, too: on SST-2,
labels alone gave 88.1 %, and Patient KD 87.7 %, within the error of one run.
[Measured results](../measured/results.md) has all runs.

## Use the student

`distiller.predict` takes texts, too, and returns the student's logits. The
student is a keras-hub model: save it as a preset, and it loads without kdkit.
"""

# %%
examples = [
    "although the plot is clever , the acting was dull .",
    "the music is never boring .",
]
print(distiller.predict(examples, verbose=0).argmax(axis=-1))

student.save_to_preset("student")
loaded = keras_hub.models.TextClassifier.from_preset("student")
print(loaded.predict(examples, verbose=0).argmax(axis=-1))

# %% [markdown]
"""
## Next

- `kdkit distill pkd --task sst2 --teacher my-checkpoint --run-dir runs/pkd`
  runs the same recipe from the command line, with checks before it starts,
  resuming, and a report.
- [From a fine-tuned BERT to an Android app](from_run_to_app.md) puts a student
  on a phone.
- [Layer maps, weights and losses](../objectives.md) lists losses and taps.
"""
