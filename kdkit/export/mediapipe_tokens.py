"""Token ids of MediaPipe's BERT tokenizer, and lines that make them kdkit's.

MediaPipe lower-cases ASCII letters only and strips no accents, so words such
as "café" and "Élan" become other pieces than in training. A vocabulary file
may contain such spellings too: `extra_lines` chooses them, and the file maps
their ids to those of the pieces.
"""

import collections
import unicodedata
from collections.abc import Iterable

import numpy as np

MAX_LETTERS, MAX_WORDS = 4096, 4096  # extra lines for letters, and for words
LONGEST_WORD = 100  # bytes; MediaPipe has no pieces for longer words
BLANKS = "\t\n\f\r "
# Code points, without ASCII, in which letters with accents are looked for.
LETTERS = range(0x80, 0x10000)
IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
HIDDEN = ("Cc", "Cf", "Co")  # categories of invisible characters
START, END, UNKNOWN, SUFFIX = "[CLS]", "[SEP]", "[UNK]", "##"
LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}

CAUSES = (
    "accents", "capitals", "blanks", "invisible characters", "special tokens",
    "other",
)  # fmt: skip


def lines_problem(tokenizer) -> str | None:
    """Returns why MediaPipe cannot read a vocabulary, `None` if it can."""
    pieces = tokenizer.get_vocabulary()
    places = {piece: number for number, piece in enumerate(pieces)}
    missing = [name for name in (START, END, UNKNOWN) if name not in places]
    if missing:
        return f"the vocabulary lacks {', '.join(missing)}"
    ends = (tokenizer.start_token_id, tokenizer.end_token_id)
    if ends != (places[START], places[END]):
        return f"it puts {START} and {END} around texts, and the model does not"
    if tokenizer.rust.model.continuing_subword_prefix != SUFFIX:
        return f"the vocabulary's pieces do not begin with {SUFFIX}"
    # It reads lines, skips empty ones and cuts a carriage return off.
    if any(
        not piece or "\n" in piece or piece.endswith("\r") for piece in pieces
    ):
        return "the vocabulary has empty pieces or pieces with line ends"
    if len(places) < len(pieces):
        return "the vocabulary has a piece twice"
    return None


def words(text: str) -> list[str]:
    """Splits a text as MediaPipe does, with ASCII letters in lower case."""
    found, start = [], 0
    text = text.partition("\0")[0].translate(LOWER)  # a C string
    for place, character in enumerate(text):
        if character in BLANKS or _is_word(character):
            found += [text[start:place], character]
            start = place + 1
    return [
        word for word in (*found, text[start:]) if word and word not in BLANKS
    ]


def _is_word(character):
    """Whether a character is a word of its own: punctuation, ideographs."""
    if character.isascii():
        return character.isprintable() and not (
            character.isalnum() or character == " "
        )
    if unicodedata.category(character).startswith("P"):
        return True
    point = ord(character)
    return any(first <= point <= last for first, last in IDEOGRAPHS)


class MediaPipeTokenizer:
    """Converts texts to token ids as MediaPipe Tasks do."""

    def __init__(self, lines: Iterable[str]):
        self._ids = {line: number for number, line in enumerate(lines)}
        self._longest = max(map(len, self._ids))

    def __call__(self, text: str, sequence_length: int) -> list[int]:
        """Returns a text's ids, truncated and with `[CLS]` and `[SEP]`."""
        ids = [number for word in words(text) for number in self.word_ids(word)]
        ids = ids[: sequence_length - 2]
        return [self._ids[START], *ids, self._ids[END]]

    def word_ids(self, word: str) -> list[int]:
        """Returns the ids of a word from `words`, by longest pieces first."""
        unknown = [self._ids[UNKNOWN]]
        if len(word.encode(errors="replace")) > LONGEST_WORD:
            return unknown
        ids, start = [], 0
        while start < len(word):
            prefix = SUFFIX if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._ids.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return unknown
            ids.append(number)
            start = end
        return ids


def extra_lines(tokenizer, texts: Iterable[str] = ()) -> dict[str, int]:
    """Returns other spellings of pieces, for the end of `vocab.txt`."""
    pieces = tokenizer.get_vocabulary()
    own = {piece: number for number, piece in enumerate(pieces)}
    normalize = tokenizer.normalize
    lines = {}
    for letter in map(chr, LETTERS):
        if letter in own or unicodedata.category(letter)[0] != "L":
            continue
        plain = normalize(letter)
        for prefix in ("", SUFFIX):
            if plain != letter and prefix + plain in own:
                lines.setdefault(prefix + letter, own[prefix + plain])
    lines = dict(list(lines.items())[:MAX_LETTERS])
    counts = collections.Counter(
        word
        for text in texts
        if not (text.isascii() and text.isprintable())
        for word in words(text)
        if not (word.isascii() and word.isprintable())
    )
    found = list(dict.fromkeys(_spellings(counts)))
    if not found:
        return lines
    targets = [np.asarray(ids).tolist() for ids in tokenizer(found)]
    limit = len(lines) + MAX_WORDS
    for word, target in zip(found, targets, strict=True):
        parts = _parts(word, [pieces[number] for number in target], normalize)
        new = {
            line: number
            for line, number in zip(parts, target, strict=False)
            if own.get(line, number) == number and line not in own
        }
        if len(lines) + len(new) > limit:
            break
        if all(
            lines.get(line, number) == number for line, number in new.items()
        ):
            lines |= new
    return lines


def _spellings(counts):
    """Yields words by frequency, and the same words with other capitals."""
    for word, _ in counts.most_common():
        yield word
        for other in (word.lower(), word.upper(), word.title()):
            yield other.translate(LOWER)


def _parts(word, pieces, normalize):
    """Returns the spellings of a word's pieces in the word, `[]` if unclear."""
    if pieces == [UNKNOWN]:
        return [word]
    parts, start, place = [], 0, 0
    for piece in pieces:
        expected = piece.removeprefix(SUFFIX) if start else piece
        received = ""
        while place < len(word) and received != expected:
            received += normalize(word[place]).strip()
            place += 1
        if received != expected:
            return []
        if len(parts) == len(pieces) - 1:
            if any(normalize(one).strip() for one in word[place:]):
                return []
            place = len(word)
        # A combining accent belongs to the letter before it.
        while place < len(word) and not normalize(word[place]):
            place += 1
        parts.append((SUFFIX if start else "") + word[start:place])
        start = place
    return parts


def differing_rows(theirs, ours, texts, tokenizer) -> dict[int, str]:
    """Returns the numbers of texts whose ids differ, each with the cause."""
    return {
        row: _cause(text, tokenizer)
        for row, text in enumerate(texts)
        if [*map(int, theirs[row])] != [*map(int, ours[row])]
    }


def _cause(text, tokenizer):
    """Returns the first of `CAUSES` that is in a text."""
    if any(token in text for token in tokenizer.added_tokens):
        return CAUSES[4]
    others = [one for one in text if not one.isascii() or not one.isprintable()]
    if any(unicodedata.category(one) in HIDDEN for one in others):
        return CAUSES[3]
    if any(one.isspace() and one not in BLANKS for one in others):
        return CAUSES[2]
    if any(tokenizer.normalize(one) != one.lower() for one in others):
        return CAUSES[0]
    if any(one != one.lower() for one in others):
        return CAUSES[1]
    return CAUSES[5]
