"""Texts for comparing tokenizers: from the data sets, and hostile ones."""

import csv
import functools
import random
import sys
import unicodedata

NUM_TEXTS = 300
MANY_TEXTS = 2000  # for `make test-large`
DATA_SETS = ("sst2", "mrpc", "imdb", "multi30k_de", "multi30k_fr")
TABLES = {
    "sst2": ("glue/SST-2/train.tsv", (0,)),
    "mrpc": ("glue/MRPC/train.tsv", (3, 4)),
    "imdb": ("imdb_unlabeled/reviews.tsv", (1,)),
}


def real_texts(data_dir, name, number=NUM_TEXTS):
    """The first texts of a data set, none of which contains a special token."""
    if name not in TABLES:
        file = data_dir / "multi30k" / f"train.{name.partition('_')[2]}"
        return file.read_text("utf-8").split("\n")[:number]
    place, columns = TABLES[name]
    with open(data_dir / place, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        texts = [row[column] for row in rows for column in columns]
    return texts[:number]


@functools.cache
def every_character(step=1):
    """All code points, each in the middle of a word, in texts of 100 words.

    Args:
        step: int. Of other letters, such as Chinese characters, and of what is
            not assigned, every which one is taken.
    """
    points = [
        point
        for point in range(sys.maxunicode + 1)
        if not 0xD800 <= point < 0xE000
        and (
            point % step == 0
            or unicodedata.category(chr(point)) not in ("Cn", "Co", "Lo")
        )
    ]
    words = [f"a{chr(point)}b" for point in points]
    return [" ".join(words[i : i + 100]) for i in range(0, len(words), 100)]


@functools.cache
def hostile_texts():
    """Texts that two tokenizers may well take differently."""
    drawn = random.Random(0)
    # What is not assigned is the reference's to change with its version.
    characters = [
        chr(point)
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co")
    ]
    parts = [
        "a", "B", "é", "e\u0301", "\u0323", "\u0307", "\u093c", "\u094d", " ",
        "\u00a0", "東", ".", "'s", "##a", "ß", "İ", "Σ", "ς", "\u200d", "🙂",
        "\u00ad", "\t", "1", "½", "ﬁ", "_", "\u0e01", "한", "\u1112\u1161",
    ]  # fmt: skip
    return [
        "",
        "  ",
        "Straße ΣΑΣ İstanbul naïve\u00a0café\u200bx \ufeffq \ufffd so\u00adft",
        "a\x00b\x07c\x85d\u2028e\u2029f\x1cg\x0bh\x0ci",
        "👨‍👩‍👧 e\u0323\u0301\u0307 \u0301\u0301 ẞ ſ Ǆ ᾳ Ω K Å ㎏ ½ ﬁ",
        f"{'ab' * 60} {'é' * 100} {'é' * 101} {'x' * 100} {'ж' * 60}",
        "日本語のテキスト 한국어 ไทย हिन्दी עברית العربية",
        "".join(characters[:2000]),
        *("".join(drawn.choices(characters, k=12)) for _ in range(300)),
        *("".join(drawn.choices(parts, k=25)) for _ in range(300)),
    ]
