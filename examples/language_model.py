# %% [markdown]
"""
# A smaller language model

Distil a GPT-2 on running text, and generate text from its file.

[This page as a notebook](language_model.ipynb)
"""

# %% [markdown]
"""
## What you will build

A decoder with fewer parameters than its teacher, trained by LightPAFF's loss
for language models ([Song et al., 2020](https://arxiv.org/abs/2004.12817)): at
each position, the student imitates the next token *and* the teacher's
distribution over all tokens. Then you export it to a file that writes text
token by token.
"""

# %% [markdown]
"""
## Setup
"""

# %%
import keras
import keras_hub
import matplotlib.pyplot as plt
import numpy as np

import kdkit

keras.utils.set_random_seed(0)

NUM_TEXTS = 5000
NUM_DEV_TEXTS = 200
NUM_STUDENT_TEXTS = 200
VOCABULARY_SIZE = 330
LENGTH = 32  # tokens of a text
TEACHER_EPOCHS = 14
EPOCHS = 60

# %% [markdown]
"""
## Running text

Your own text is a list of strings, such as the lines of a file:

```python
texts = open("my_text.txt", encoding="utf-8").read().splitlines()
```

This guide needs no download, so it writes very short stories. Most words can
be predicted from grammar, but not the last sentence: who has what in the end
depends on the sentences before.
"""

# %%
NAMES = ["Anna", "Tom", "Mia", "Ben", "Eva", "Max", "Lea", "Jan"]
COLORS = ["red", "blue", "green", "black"]
THINGS = ["ball", "book", "kite", "drum", "lamp", "boat"]


def make_story(generator):
    owner, other = generator.choice(NAMES, 2, replace=False)
    color, thing = generator.choice(COLORS), generator.choice(THINGS)
    story = f"{owner} has a {color} {thing}. {other} wants it. "
    if generator.random() < 0.5:
        story += f"{owner} keeps it. "
    else:
        story += f"{owner} gives it to {other}. "
        owner = other
    return story + f"Now {owner} has the {color} {thing}."


generator = np.random.default_rng(0)
stories = (make_story(generator) for _ in range(NUM_TEXTS))
texts = list(dict.fromkeys(stories))  # each story once
dev_texts, texts = texts[:NUM_DEV_TEXTS], texts[NUM_DEV_TEXTS:]
print(len(texts), "stories, such as:")
print(texts[0])

# %% [markdown]
"""
## A teacher

With real text, use a pretrained GPT-2 and its tokenizer:

```python
teacher = keras_hub.models.GPT2CausalLM.from_preset("gpt2_base_en")
tokenizer = teacher.preprocessor.tokenizer
```

Here, kdkit trains a byte-pair vocabulary on the stories, and a small GPT-2
learns from random weights. `kdkit.models.student` builds a backbone by its
sizes, and `language_model` adds the head.
"""

# %%
tokenizer = kdkit.models.train_byte_pairs(texts, VOCABULARY_SIZE)
preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(
    tokenizer, sequence_length=LENGTH
)


def make_model(num_layers, width):
    backbone = kdkit.models.student(
        {
            "family": "gpt2",
            "num_layers": num_layers,
            "num_heads": 4,
            "hidden_dim": width,
            "intermediate_dim": 4 * width,
            "vocabulary_size": tokenizer.vocabulary_size(),
            "max_sequence_length": LENGTH,
            "dropout": 0.0,
        }
    )
    model = kdkit.models.language_model(backbone)
    model.preprocessor = preprocessor
    return model


def compile_for_text(model):
    model.compile(
        optimizer=keras.optimizers.AdamW(4e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=[
            keras_hub.metrics.Perplexity(from_logits=True, name="perplexity")
        ],
        jit_compile=False,
    )


teacher = make_model(num_layers=2, width=64)
compile_for_text(teacher)
teacher_history = teacher.fit(
    texts,
    batch_size=32,
    epochs=TEACHER_EPOCHS,
    shuffle=False,  # the stories have no order
    validation_data=(dev_texts,),
    verbose=2,
).history

# %% [markdown]
"""
The preprocessor makes the labels: the tokens, one position later. It also
returns sample weights, so that padding does not count.

## The student on text alone, and with the teacher

The student is half as wide and sees only 200 stories. λ = 0.6 is the weight of
the teacher's distribution and 1 − λ that of the text.

For GPT-2's vocabulary of 50,257 tokens, pass `chunk_size=256` to `Distiller`
and no metrics: then the logits of 256 positions are in memory at once, and the
losses stay the same.
"""

# %%
student_texts = texts[:NUM_STUDENT_TEXTS]
fit_settings = {
    "batch_size": 32,
    "epochs": EPOCHS,
    "validation_data": (dev_texts,),
    "verbose": 0,
}

keras.utils.set_random_seed(1)
alone = make_model(num_layers=2, width=32)
compile_for_text(alone)
alone_history = alone.fit(student_texts, shuffle=False, **fit_settings).history

keras.utils.set_random_seed(1)
student = make_model(num_layers=2, width=32)
distiller = kdkit.Distiller(
    teacher,
    student,
    kdkit.Objective(kdkit.losses.LogitKLDivergence(), weight=0.6),
    hard_label_weight=0.4,
)
compile_for_text(distiller)
distilled_history = distiller.fit(student_texts, **fit_settings).history

# %% [markdown]
"""
Perplexity is the exponential of the mean loss: 1.5 means that the model is as
unsure as between one and a half equally probable tokens. Lower is better.
"""

# %%
curves = {
    "text alone": alone_history["val_perplexity"],
    "LightPAFF": distilled_history["val_perplexity"],
}
best = min(teacher_history["val_perplexity"])
plt.figure(figsize=(6, 3.5))
for name, values in curves.items():
    plt.plot(range(1, EPOCHS + 1), values, label=name)
plt.axhline(best, color="gray", linestyle="--", label="teacher")
plt.xlabel("epoch")
plt.ylabel("perplexity on dev")
plt.ylim(1, 3)
plt.legend()
plt.show()

print(f"teacher: {teacher.count_params():,} parameters, perplexity {best:.2f}")
for name, values in curves.items():
    print(
        f"{name}: {student.count_params():,} parameters, perplexity "
        f"{min(values):.2f}"
    )

# %% [markdown]
"""
Both students read the same texts in the same number of updates, with one seed.
Here the teacher adds nothing in the end: these stories are so regular that 200
of them show all that the teacher knows. On real text the teacher helps: on
Penn Treebank, a student with 22 % of its teacher's parameters reached a
perplexity of 302.8, the same student without a teacher 370.9, and the teacher
168.0 ([measured results](../measured/results.md)).

## Export

The file reads one token per call, with the keys and values of the tokens
before as inputs, so that a token costs one step. `kdkit.generation.generate`
takes the file or the Keras model.
"""

# %%
report = kdkit.export.to_litert(
    student, "student-int8.tflite", precision="int8"
)
print(f"{report.size_bytes:,} bytes")
print(f"same highest token as Keras: {report.same_top_class:.1%}")

file = kdkit.export.LiteRTDecoder("student-int8.tflite")
prompt = "Mia has a blue lamp. Ben wants it."
prompt_tokens = tokenizer(prompt)
for model in (student, file):
    tokens = kdkit.generation.generate(
        model,
        prompt_tokens,
        max_tokens=LENGTH - len(prompt_tokens),
        stop_token_ids=[tokenizer.end_token_id],
    )
    print(prompt + tokenizer.detokenize(tokens))

# %% [markdown]
"""
The file writes what the Keras model writes. The last sentence has a possible
owner, but the wrong color: this small student has not learned to look it up.

## Next

- `kdkit distill lightpaff --model gpt2` runs all four steps of LightPAFF on
  files of text: [LightPAFF for GPT-2](../recipes/lightpaff_gpt2.md).
- [A translator](translator.md) distils an encoder-decoder in the same way.
"""
