"""Subword vocabularies, read from files or trained on texts."""

import io
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import keras
import keras_hub
import sentencepiece
import tokenizers

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import numbered_lines, read_json
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.mass import MassBackbone
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import TextRules, bert_rules

# The end of a vocabulary file's name, with the end of its merges file's name.
MERGES = {
    "encoder.json": "vocab.bpe",  # OpenAI's names
    "vocab.json": "merges.txt",  # Hugging Face's names
    "vocabulary.json": "merges.txt",  # keras-hub's names
}


def byte_pair_files(file) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the paths of a vocabulary and its merges.

    Args:
        file: string or path. The vocabulary, a JSON object from token to id,
            whose name ends with `encoder.json`, `vocab.json` or
            `vocabulary.json`. The merges must be in the same folder, under the
            same name with the end `vocab.bpe` or `merges.txt`.

    Raises:
        UsageError: (a `ValueError`) for another name.
    """
    file = pathlib.Path(file)
    for ending, merges in MERGES.items():
        if file.name.endswith(ending):
            begin = file.name.removesuffix(ending)
            return file, file.with_name(begin + merges)
    raise unknown("end of a vocabulary's name", file.name, MERGES)


def read_byte_pairs(file):
    """Reads a byte-pair tokenizer from GPT-2's files."""
    file, merges = byte_pair_files(file)
    tokenizer = keras_hub.tokenizers.GPT2Tokenizer(
        read_vocabulary(file), read_merges(merges)
    )
    return with_rules(tokenizer, TextRules())


def read_vocabulary(file: pathlib.Path) -> dict[str, int]:
    """Reads a JSON object from token to id."""
    vocabulary = read_json(file, "a vocabulary")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise UsageError(f"{file} does not have one token for each id from 0.")
    return vocabulary


def read_merges(file: pathlib.Path) -> list[str]:
    """Reads merges, two tokens per line with a blank between them."""
    return [
        line
        for _, line in numbered_lines(file)
        if line.strip() and not line.startswith("#version")
    ]


def train_byte_pairs(
    texts: Iterable[str], vocabulary_size: int, family: str = "gpt2"
):
    """Trains a byte-level byte-pair tokenizer, like GPT-2's.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: the 256 bytes, the family's
            special tokens, such as `<|endoftext|>`, and merges.
        family: string. The decoder family of the tokenizer. Defaults to
            `"gpt2"`.

    Returns:
        The family's tokenizer, such as a `keras_hub.tokenizers.GPT2Tokenizer`.

    Raises:
        UsageError: (a `ValueError`) if the size leaves no capacity for merges,
            or the texts have too few different words.

    References:
     - [Radford et al., 2019](
        https://d4mucfpksywv.cloudfront.net/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
        section 2.2
    """
    special = list(ALL_FAMILIES[family].special_tokens)
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(
        texts,
        vocab_size=vocabulary_size,
        special_tokens=special,
        show_progress=False,
    )
    model = json.loads(trained.to_str())["model"]
    if len(model["vocab"]) != vocabulary_size:
        raise UsageError(
            f"Bytes, special tokens and text have {len(model['vocab'])} tokens."
            f" Received: vocabulary_size={vocabulary_size}."
        )
    merges = [
        merge if isinstance(merge, str) else " ".join(merge)
        for merge in model["merges"]
    ]
    # Special tokens come last, as in GPT-2. keras-hub pads with the first
    # token, and its `generate` would take that for the end of the text.
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    tokens = [token for token in tokens if token not in special] + special
    vocabulary = {token: id for id, token in enumerate(tokens)}
    tokenizer = ALL_FAMILIES[family].tokenizer(vocabulary, merges)
    return with_rules(tokenizer, TextRules())


SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_word_pieces(path: pathlib.Path):
    """Returns a tokenizer from a file of word pieces."""
    pieces = [line for _, line in numbered_lines(path)]
    ordinary = set(pieces) - set(SPECIAL_PIECES)
    is_cased = any(
        piece != piece.lower()
        for piece in ordinary
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    return word_piece_tokenizer(pieces, lowercase=not is_cased)


def word_piece_tokenizer(
    pieces, lowercase: bool, strip_accents: bool | None = None
):
    """Returns a word-piece tokenizer that splits texts as BERT does.

    Args:
        pieces: list of strings, with BERT's special pieces.
        lowercase: bool. Whether to lower-case texts.
        strip_accents: bool or `None`, which means the value of `lowercase`.
            Defaults to `None`.
    """
    tokenizer = keras_hub.tokenizers.BertTokenizer(pieces)
    return with_rules(tokenizer, bert_rules(lowercase, strip_accents))


def train_word_pieces(
    texts: Iterable[str], vocabulary_size: int, lowercase: bool = True
):
    """Trains word pieces on texts, in any languages that separate words.

    Texts are split as by BERT. Accents stay, because they distinguish words in
    most languages other than English.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: BERT's five special pieces, the
            characters of the texts, and longer pieces.
        lowercase: bool. Whether texts are lower-cased. Defaults to `True`.

    Returns:
        A `keras_hub.tokenizers.BertTokenizer`.

    Raises:
        UsageError: (a `ValueError`) if the texts have more different characters
            than the vocabulary has tokens, or too few different words.

    References:
     - [Schuster and Nakajima, 2012](https://research.google/pubs/pub37842/)

    >>> texts = ["a dog runs", "ein Hund läuft", "un chien court"]
    >>> kdkit.models.train_word_pieces(texts, 40).vocabulary_size()
    40
    """
    trained = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(unk_token=SPECIAL_PIECES[1])
    )
    trained.normalizer = tokenizers.normalizers.BertNormalizer(
        strip_accents=False, lowercase=lowercase
    )
    trained.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    texts = list(texts)
    characters = set()
    for text in texts:
        characters.update(trained.normalizer.normalize_str(text))
    # The trainer numbers the characters inside words in a random order, and
    # its choice between equally frequent pieces depends on the numbers.
    inside = [f"##{one}" for one in sorted(characters) if not one.isspace()]
    trained.train_from_iterator(
        texts,
        tokenizers.trainers.WordPieceTrainer(
            vocab_size=vocabulary_size,
            special_tokens=[*SPECIAL_PIECES, *inside],
            show_progress=False,
        ),
    )
    ids = trained.get_vocab()
    if len(ids) != vocabulary_size:
        raise UsageError(
            f"The text has {len(ids)} word pieces. Received: "
            f"vocabulary_size={vocabulary_size}."
        )
    pieces = sorted(ids, key=ids.get)
    return word_piece_tokenizer(pieces, lowercase, strip_accents=False)


PAD, UNKNOWN, START, END, MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
LANGUAGE = "<{}>"

# SentencePiece's trainer ignores longer lines, and only logs it.
LONGEST_LINE = 4192  # bytes
# Never longer: at most 1,000 characters, of whole words if possible.
SHORT_LINE = re.compile(r"\S.{0,999}(?!\S)|\S{1,1000}", re.DOTALL)


@keras.saving.register_keras_serializable(package="kdkit")
class MassTokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
    """A SentencePiece vocabulary with a mask token and language tokens.

    Args:
        proto: bytes or string. The SentencePiece model or its file, which must
            contain `<pad>`, `<unk>`, `<s>`, `</s>` and `<mask>`. `None` for a
            tokenizer whose files are loaded later. Defaults to `None`.
        kwargs: arguments of `keras_hub.tokenizers.SentencePieceTokenizer`.

    Attributes:
        pad_token_id, start_token_id, end_token_id, mask_token_id: ints.

    Raises:
        UsageError: (a `ValueError`) if the model lacks a special token.
    """

    backbone_cls = MassBackbone

    def __init__(self, proto=None, **kwargs):
        super().__init__(proto, **kwargs)

    def set_proto(self, proto):
        super().set_proto(proto)
        if proto is None:
            return
        pieces = self.get_vocabulary()
        missing = [
            token
            for token in (PAD, UNKNOWN, START, END, MASK)
            if token not in pieces
        ]
        if missing:
            raise UsageError(f"The SentencePiece model lacks {missing}.")
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.proto)
        self._control_ids = tuple(
            token for token in range(len(pieces)) if processor.IsControl(token)
        )
        self.pad_token_id = self.token_to_id(PAD)
        self.start_token_id = self.token_to_id(START)
        self.end_token_id = self.token_to_id(END)
        self.mask_token_id = self.token_to_id(MASK)

    @property
    def special_token_ids(self) -> list[int]:
        """Ids of tokens that no text contains; without the unknown token."""
        return list(self._control_ids)

    @property
    def languages(self) -> list[str]:
        """The languages that have a token, in the order of their ids."""
        own = (PAD, START, END, MASK)
        return [
            piece.strip("<>")
            for piece in map(self.id_to_token, self.special_token_ids)
            if piece not in own
        ]

    def language_token_id(self, language: str | None) -> int:
        """Returns the id of a language's token, or of `<s>` for `None`.

        Raises:
            UsageError: (a `ValueError`) for a language without a token.
        """
        if language is None:
            return self.start_token_id
        if language not in self.languages:
            raise unknown("language", language, self.languages)
        return self.token_to_id(LANGUAGE.format(language))


def train_sentence_pieces(
    texts: Iterable[str],
    vocabulary_size: int,
    languages: Sequence[str] = (),
    model_type: str = "bpe",
) -> MassTokenizer:
    """Trains one vocabulary on the texts of all languages together.

    Characters that no piece covers are spelled by bytes, so no token is
    unknown.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: `<pad>`, `<unk>`, `<s>`,
            `</s>`, `<mask>`, one for each language, 256 bytes, and pieces.
        languages: sequence of strings, such as `["en", "de"]`. Defaults to
            `()`.
        model_type: string. `"bpe"` for byte pairs (Sennrich et al., 2016), as
            in MASS, or `"unigram"` (Kudo, 2018). Defaults to `"bpe"`.

    Returns:
        `MassTokenizer`.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_lines(texts),
        model_writer=model,
        vocab_size=vocabulary_size,
        model_type=model_type,
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        pad_piece=PAD,
        unk_piece=UNKNOWN,
        bos_piece=START,
        eos_piece=END,
        control_symbols=[MASK, *map(LANGUAGE.format, languages)],
        minloglevel=2,
    )
    return MassTokenizer(model.getvalue())


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts; splits long ones, between words if possible."""
    for text in texts:
        if len(text.encode("utf-8")) > LONGEST_LINE:
            yield from SHORT_LINE.findall(text)
        else:
            yield text
