# %% [markdown]
"""
# A smaller translator

Distil an encoder-decoder on pairs of texts by LightPAFF.

[This page as a notebook](translator.ipynb)
"""

# %% [markdown]
"""
## What you will build

A model that writes one text for another, with a sixth of its teacher's
parameters. Teacher and student are MASS encoder-decoders ([Song et al.,
2019](https://arxiv.org/abs/1905.02450)). The student learns by the loss of
LightPAFF ([Song et al., 2020](https://arxiv.org/abs/2004.12817)): at each
position of the target it imitates the label and the teacher's distribution
over all tokens.

The same code trains summaries, corrections, or any text written from a text.
"""

# %% [markdown]
"""
## Setup
"""

# %%
import keras
import matplotlib.pyplot as plt
import numpy as np
import sacrebleu

import kdkit

keras.utils.set_random_seed(0)

NUM_PAIRS = 3000  # pairs for the teacher
NUM_STUDENT_PAIRS = 1500  # pairs for the student
NUM_DEV_PAIRS = 150
VOCABULARY_SIZE = 420
LENGTH = 32  # tokens of a source or a target
TEACHER_EPOCHS = 10
EPOCHS = 16

# %% [markdown]
"""
## Pairs of texts

Your own pairs are two lists of strings, such as the lines of `train.en` and
`train.de`. This guide needs no download, so it takes sentences that kdkit
generates, and spells each word backwards in place of German. `<en>` and `<de>`
are tokens that begin a text and name its language; the vocabulary is shared.
"""

# %%
pairs = list(kdkit.data.generated_pairs())
dev_sources, dev_targets = zip(*pairs[:NUM_DEV_PAIRS], strict=True)
sources, targets = zip(*pairs[NUM_DEV_PAIRS:][:NUM_PAIRS], strict=True)
print(sources[0], "->", targets[0])

tokenizer = kdkit.models.train_sentence_pieces(
    sources + targets, VOCABULARY_SIZE, languages=["en", "de"]
)


def make_data(sources, targets):
    """Encoded pairs as inputs, labels and sample weights."""
    sides = [
        kdkit.data.encode_sentences(texts, tokenizer, LENGTH, language)
        for texts, language in ((sources, "en"), (targets, "de"))
    ]
    rows = kdkit.data.PairRows(*sides)
    return rows.batch(np.arange(len(rows)), LENGTH, seed=None)


dev = make_data(dev_sources, dev_targets)

# %% [markdown]
"""
## A teacher

With a real task, the teacher is a run of `kdkit pretrain --pairs train.en
train.de`, and this line loads it:

```python
teacher = kdkit.models.load_language_model("runs/mass_en_de").model
```

Here, a small one learns from random weights. Encoder and decoder may differ in
depth: a decoder layer runs once per written token, so removing one saves more
time than removing an encoder layer.
"""


# %%
def make_translator(encoder_layers, decoder_layers, width):
    backbone = kdkit.models.MassBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        encoder_num_layers=encoder_layers,
        decoder_num_layers=decoder_layers,
        num_heads=4,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=LENGTH,
        dropout=0.0,
    )
    return kdkit.models.MassSeq2SeqLM(backbone)


def compile_for_labels(model):
    model.compile(
        optimizer=keras.optimizers.AdamW(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        weighted_metrics=["accuracy"],
        jit_compile=False,
    )


teacher = make_translator(2, 2, width=64)
compile_for_labels(teacher)
x, y, sample_weight = make_data(sources, targets)
history = teacher.fit(
    x,
    y,
    sample_weight=sample_weight,
    batch_size=32,
    epochs=TEACHER_EPOCHS,
    shuffle=False,  # the generated pairs have no order
    validation_data=dev,
    verbose=2,
)

# %% [markdown]
"""
`accuracy` is the share of target tokens that get the highest logit, given the
tokens before. Padding does not count: its sample weight is 0.
"""

# %% [markdown]
"""
## The student on labels alone, and with the teacher

The student is half as deep and half as wide. λ = 0.7 is the weight of the
teacher's distribution and 1 − λ that of the labels. The padding mask needs no
argument: it comes with the sample weights.

For real vocabularies, pass `chunk_size=256` to `Distiller` and no metrics:
then the logits of 256 positions are in memory at once, and the losses stay the
same.
"""

# %%
x, y, sample_weight = make_data(
    sources[:NUM_STUDENT_PAIRS], targets[:NUM_STUDENT_PAIRS]
)
fit_settings = {
    "x": x,
    "y": y,
    "sample_weight": sample_weight,
    "batch_size": 32,
    "epochs": EPOCHS,
    "validation_data": dev,
    "verbose": 0,
}

alone = make_translator(1, 1, width=32)
student = make_translator(1, 1, width=32)
student.set_weights(alone.get_weights())  # both start from the same weights

compile_for_labels(alone)
alone_history = alone.fit(shuffle=False, **fit_settings).history

distiller = kdkit.Distiller(
    teacher,
    student,
    kdkit.Objective(kdkit.losses.LogitKLDivergence(), weight=0.7),
    hard_label_weight=0.3,
)
compile_for_labels(distiller)
distilled_history = distiller.fit(**fit_settings).history

teacher_accuracy = history.history["val_accuracy"][-1]
epochs = range(1, EPOCHS + 1)
plt.figure(figsize=(6, 3.5))
plt.axhline(teacher_accuracy, color="gray", linestyle="--", label="teacher")
plt.plot(epochs, distilled_history["val_accuracy"], "o-", label="LightPAFF")
plt.plot(epochs, alone_history["val_accuracy"], "o-", label="labels alone")
plt.xlabel("epoch")
plt.ylabel("accuracy of tokens on dev")
plt.legend()
plt.show()

# %% [markdown]
"""
## Translate

`TextWriter` finds the most probable text by beam search. BLEU compares it with
the reference; a beam of 1 is greedy search.
"""

# %%
beams = kdkit.generation.Beams(beam_size=4)


def make_writer(model):
    return kdkit.generation.TextWriter(
        model, tokenizer, ("en", "de"), beams, max_length=LENGTH
    )


translations = {}
for name, model in {
    "teacher": teacher,
    "labels alone": alone,
    "LightPAFF": student,
}.items():
    translations[name] = make_writer(model)(dev_sources)
    # force=True: the generated sentences end with a token ".".
    bleu = sacrebleu.corpus_bleu(
        translations[name], [list(dev_targets)], force=True
    )
    size = model.count_params()
    print(f"{name}: {size:,} parameters, BLEU {bleu.score:.1f}")

print("source:   ", dev_sources[1])
print("reference:", dev_targets[1])
for name, texts in translations.items():
    print(f"{name}: {texts[1]}")

# %% [markdown]
"""
Both students started from the same weights and made the same number of updates
on the same pairs, with one seed. Here the teacher can add little: in these
generated pairs each word has one translation, which the label contains. Real
sentences have many right translations: on Multi30k, a student with 21 % of its
teacher's parameters reached 31.9 BLEU, the same student without a teacher 29.8,
and the teacher 35.4 ([measured results](../measured/results.md)).

## Export

The file contains encoder and decoder. The encoder reads a source once; the
decoder reads one token at a time, with the keys and values of the tokens
before as inputs. The export compares the file with the Keras model.
`LiteRTSeq2Seq` runs it, and `TextWriter` takes it in place of the model.
"""

# %%
report = kdkit.export.to_litert(
    student, "student-int8.tflite", precision="int8", sequence_length=LENGTH
)
print(f"{report.size_bytes:,} bytes")
print(f"same highest token as Keras: {report.same_top_class:.1%}")

file = kdkit.export.LiteRTSeq2Seq("student-int8.tflite")
written = make_writer(file)(dev_sources[:20])
equal = [
    one == other
    for one, other in zip(written, translations["LightPAFF"], strict=False)
]
print(f"{sum(equal)} of {len(equal)} translations are those of Keras")

# %% [markdown]
"""
## Next

- [Translators and other models that write one text of
  another](../translation.md) does the same from the command line, with
  pretraining on plain text and batches by tokens.
- Sequence-level distillation trains on what the teacher writes: pass
  `make_writer(teacher)(sources)` as the targets.
"""
