"""Tiny data of every kind of task, and an encoder that reads it."""

import json

import keras_hub
import numpy as np

WORDS = (
    "ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx",
)  # fmt: skip
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".")
EMOTIONS = ("joy", "fear", "anger")
TAGS = ("O", "B-PER", "I-PER", "B-LOC")
# the second character has one reading, and none of the others' marks
READINGS = {"了": ("le5", "liao3"), "好": ("hao3",), "行": ("hang2", "xing2")}


def write_multi_label(root, num_rows=24):
    """A class is there where its word is."""
    folder = root / "multi_label"
    folder.mkdir()
    (folder / "labels.txt").write_text("\n".join(EMOTIONS))
    generator = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        lines = ["text\tlabels"]
        for _ in range(num_rows):
            words = generator.choice(WORDS, 4)
            present = [
                name
                for name, word in zip(EMOTIONS, WORDS, strict=False)
                if word in words
            ]
            lines.append(f"{' '.join(words)}\t{','.join(present)}")
        (folder / f"{split}.tsv").write_text("\n".join(lines))


def write_race(root, num_passages=6):
    """Two questions a passage; the answer is the word that occurs in it."""
    folder = root / "race_middle"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        passages = []
        for number in range(num_passages):
            words = generator.permutation(WORDS)
            answers = generator.integers(4, size=2)
            options = [list(words[:4]), list(words[4:8])]
            passages.append(
                {
                    "id": f"{split}{number}.txt",
                    "article": " ".join(words[[answers[0], 4 + answers[1]]]),
                    "questions": ["ab cd ?", "ef ?"],
                    "options": options,
                    "answers": ["ABCD"[answer] for answer in answers],
                }
            )
        text = "\n".join(map(json.dumps, passages))
        (folder / f"{split}_middle.jsonl").write_text(text)


def write_conll(root, num_rows=24):
    """Tags by the word, spans of one or two words."""
    folder = root / "conll"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        lines = ["-DOCSTART- -X- O", ""]
        for number in range(num_rows):
            person = generator.choice(WORDS[:2], 2)
            lines += [f"{person[0]} NN B-PER", f"{person[1]} NN I-PER"]
            lines += [f"{word} NN O" for word in WORDS[4 : 5 + number % 4]]
            lines += [f"{generator.choice(WORDS[8:])} NN B-LOC", ". . O", ""]
        (folder / f"{split}.txt").write_text("\n".join(lines))


def write_polyphone(root, num_rows=60):
    """The reading depends on the character before."""
    folder = root / "polyphone"
    folder.mkdir()
    generator = np.random.default_rng(0)
    fillers = np.random.default_rng(1)  # so that sentences differ
    for split in ("dev", "test"):
        sentences, readings = [], []
        for _ in range(num_rows):
            character = str(generator.choice(list(READINGS)))
            choices = READINGS[character]
            number = int(generator.integers(len(choices)))
            before = ["天", "地"][number]
            filler = "".join(fillers.choice(list("东西南北春夏秋冬"), 5))
            sentences.append(f"人{before}▁{character}▁ 人{filler}。")
            readings.append(choices[number])
        (folder / f"{split}.sent").write_text("\n".join(sentences))
        (folder / f"{split}.lb").write_text("\n".join(readings))


WRITERS = {
    "multi_label": write_multi_label,
    "race_middle": write_race,
    "conll": write_conll,
    "polyphone": write_polyphone,
}


def write_encoder(path, vocabulary=VOCABULARY, hidden_dim=16):
    """A tiny pretrained encoder: a preset directory with its tokenizer."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary),
        num_layers=2,
        num_heads=2,
        hidden_dim=hidden_dim,
        intermediate_dim=2 * hidden_dim,
        max_sequence_length=32,
        dropout=0.0,
    )
    backbone.save_to_preset(str(path))
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        list(vocabulary), lowercase=False
    )
    tokenizer.save_to_preset(str(path))
    return backbone, tokenizer
