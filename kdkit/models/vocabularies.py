"""Sub-word vocabularies: read from files, or trained on texts."""

import collections
import json
import pathlib
from collections.abc import Iterable

import keras_hub
import tokenizers

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.reading import numbered_lines
from kdkit.io.reading import read_json
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.families import DECODERS
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import TextRules
from kdkit.models.text_rules import bert_rules
from kdkit.models.trust import loading

END_OF_TEXT = "<|endoftext|>"
# A vocabulary's file to that of its merges, by how their names end.
MERGES = {
    "encoder.json": "vocab.bpe",  # as OpenAI published them
    "vocab.json": "merges.txt",  # as Hugging Face has them
    "vocabulary.json": "merges.txt",  # as keras-hub has them
}
NUM_BYTES = 256


def byte_pair_files(file) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns a vocabulary's file and that of its merges.

    Args:
        file: string or path. The vocabulary, a JSON object from token to id,
            whose name ends in `encoder.json`, `vocab.json` or
            `vocabulary.json`. The merges are in its folder, with the same
            beginning of the name and `vocab.bpe` or `merges.txt` as its end.

    Raises:
        UsageError: (a `ValueError`) if one of the files is not there.
    """
    file = pathlib.Path(file)
    endings = [end for end in MERGES if file.name.endswith(end)]
    if not endings:
        raise UsageError(
            f"{file} is no byte-pair vocabulary. Expected a name that ends in "
            f"one of {tuple(MERGES)}."
        )
    ending = endings[0]
    merges = file.with_name(file.name.removesuffix(ending) + MERGES[ending])
    missing = [path for path in (file, merges) if not path.is_file()]
    if missing:
        raise UsageError(
            "A byte-pair tokenizer is two files, its vocabulary and its "
            f"merges. Missing: {', '.join(map(str, missing))}."
        )
    return file, merges


def read_byte_pairs(file):
    """Reads a byte-pair tokenizer from GPT-2's files.

    Args:
        file: string or path, as `byte_pair_files` takes it.

    Returns:
        `keras_hub.tokenizers.GPT2Tokenizer`.

    Raises:
        UsageError: (a `ValueError`) if one of the files is not there, or the
            vocabulary has no `<|endoftext|>`.
    """
    file, merges = byte_pair_files(file)
    vocabulary = read_vocabulary(file)
    if END_OF_TEXT not in vocabulary:
        raise UsageError(
            f"{file} is no vocabulary of a GPT-2. Expected {END_OF_TEXT!r} "
            "among its tokens."
        )
    lines = read_merges(merges)
    with loading(file):
        tokenizer = keras_hub.tokenizers.GPT2Tokenizer(vocabulary, lines)
        return with_rules(tokenizer, TextRules())


def read_vocabulary(file: pathlib.Path) -> dict[str, int]:
    """Reads a JSON object from token to id.

    Args:
        file: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if it is something else.
    """
    return read_json(file, "a vocabulary", _of_vocabulary)


def read_merges(file: pathlib.Path) -> list[str]:
    """Reads merges, two tokens a line with a blank between them.

    Args:
        file: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) with the number of a line that is none.
    """
    lines = []
    for number, line in numbered_lines(file, "merges, one a line"):
        if line.startswith("#version") or not line.strip():
            continue
        if len(line.split(" ")) != 2:
            raise UsageError(
                f"{file}, line {number}: expected two pieces with a blank "
                f"between them. Received: {shortened(line)}."
            )
        lines.append(line)
    return lines


def _of_vocabulary(vocabulary):
    """What is wrong with the ids of a vocabulary."""
    ids = vocabulary.values()
    if all(type(number) is int for number in ids) and (
        sorted(ids) == list(range(len(vocabulary)))
    ):
        return None
    return (
        "expected each id from 0 to the number of its tokens, less one, for "
        "one token"
    )


def train_byte_pairs(
    texts: Iterable[str], vocabulary_size: int, family: str = "gpt2"
):
    """Trains a byte-level byte-pair tokenizer, as GPT-2's is.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: the 256 bytes, the family's
            special tokens, such as `<|endoftext|>`, and the rest are merges.
        family: string. A decoder's family, whose tokenizer is trained. Defaults
            to `"gpt2"`.

    Returns:
        The family's tokenizer, such as a `keras_hub.tokenizers.GPT2Tokenizer`.

    Raises:
        UsageError: (a `ValueError`) if the vocabulary has no place for a merge,
            the texts do not have so many, or the family has another kind of
            tokenizer.

    References:
     - [Radford et al., 2019](
        https://d4mucfpksywv.cloudfront.net/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
        section 2.2
    """
    special = list(ALL_FAMILIES[family].special_tokens)
    if not special:
        raise UsageError(
            f"No byte pairs are trained for {ALL_FAMILIES[family].title}. "
            f"Expected one of the families {sorted(DECODERS)}."
        )
    least = NUM_BYTES + len(special)
    if vocabulary_size <= least:
        raise UsageError(
            f"A byte-pair vocabulary has {NUM_BYTES} bytes, "
            f"{', '.join(map(repr, special))} and merges. Expected more than "
            f"{least} tokens. Received: vocabulary_size={vocabulary_size}."
        )
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(
        texts,
        vocab_size=vocabulary_size,
        special_tokens=special,
        show_progress=False,
    )
    model = json.loads(trained.to_str())["model"]
    if len(model["vocab"]) < vocabulary_size:
        raise UsageError(
            "The text has too few different words for a vocabulary of "
            f"{vocabulary_size}. Received: text for {len(model['vocab'])} "
            "tokens. Use more text or a smaller vocabulary."
        )
    merges = [
        merge if isinstance(merge, str) else " ".join(merge)
        for merge in model["merges"]
    ]
    # Behind the others, as in GPT-2's own: keras-hub pads with the first, and
    # its `generate` would take that for the end of the text.
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    tokens = [token for token in tokens if token not in special] + special
    vocabulary = {token: id for id, token in enumerate(tokens)}
    tokenizer = ALL_FAMILIES[family].tokenizer(vocabulary, merges)
    return with_rules(tokenizer, TextRules())


SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_word_pieces(path: pathlib.Path):
    """Returns a tokenizer from a file of word pieces.

    Args:
        path: `pathlib.Path`. A UTF-8 file with one word piece a line; it is
            taken as lower-cased, without accents, unless a piece has a capital
            letter.

    Raises:
        UsageError: (a `ValueError`) if a special piece is missing, or a piece
            stands there twice.
    """
    pieces = [
        line
        for _, line in numbered_lines(path, "a vocabulary, one piece a line")
    ]
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    if missing:
        raise UsageError(
            f"{path} is no vocabulary of a BERT. Expected one word piece a "
            f"line, {', '.join(SPECIAL_PIECES)} among them. Missing: "
            f"{', '.join(missing)}."
        )
    counts = collections.Counter(piece.rstrip() for piece in pieces)
    twice = [piece for piece, count in counts.items() if count > 1]
    if twice:
        raise UsageError(
            f"{path}: expected each word piece once. Received: "
            f"{shortened(twice)} more than once."
        )
    ordinary = set(pieces) - set(SPECIAL_PIECES)
    is_cased = any(
        piece != piece.lower()
        for piece in ordinary
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    with loading(path):
        return word_piece_tokenizer(pieces, lowercase=not is_cased)


def word_piece_tokenizer(pieces, lowercase: bool):
    """Returns a tokenizer of word pieces that splits texts as BERT's does.

    Args:
        pieces: list of strings, with BERT's special pieces.
        lowercase: bool. Whether texts are lower-cased and accents stripped.
    """
    tokenizer = keras_hub.tokenizers.BertTokenizer(pieces)
    return with_rules(tokenizer, bert_rules(lowercase))
