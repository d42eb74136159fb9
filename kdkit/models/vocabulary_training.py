"""Trains vocabularies on texts with the trainers of `tokenizers`."""

from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from kdkit.errors import UsageError
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.tokenizer import LANGUAGE, Tokenizer
from kdkit.models.tokenizer_kinds import (
    BERT_TOKENS,
    ROBERTA_TOKENS,
    by_bytes,
    framed,
    word_piece_tokenizer,
)

SPECIAL_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# In a vocabulary for several languages.
SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
MIN_FREQUENCY = 2  # of a pair that is merged
BYTES = pre_tokenizers.ByteLevel.alphabet()


def train_word_pieces(
    texts: Iterable[str], vocabulary_size: int, lowercase: bool = True
) -> Tokenizer:
    """Trains word pieces on texts, in any languages that separate words.

    Texts are split as by BERT. Accents stay, because they distinguish words in
    most languages other than English.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: BERT's five special pieces, the
            characters of the texts, and longer pieces.
        lowercase: bool. Whether texts are lower-cased. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) if the texts have more different characters
            than the vocabulary has tokens, or too few different words.

    References:
     - [Schuster and Nakajima, 2012](https://research.google/pubs/pub37842/)

    >>> texts = ["a dog runs", "ein Hund läuft", "un chien court"]
    >>> kdkit.models.train_word_pieces(texts, 40).vocabulary_size()
    40
    """
    model = models.WordPiece(unk_token=BERT_TOKENS["unknown"])
    rust = tokenizers.Tokenizer(model)
    rust.normalizer = normalizers.BertNormalizer(
        strip_accents=False, lowercase=lowercase
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    texts = list(texts)
    characters = set()
    for text in texts:
        characters.update(rust.normalizer.normalize_str(text))
    # The trainer numbers the characters inside words in a random order, and
    # its choice between equally frequent pieces depends on the numbers.
    inside = [f"##{one}" for one in sorted(characters) if not one.isspace()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[*SPECIAL_PIECES, *inside],
        show_progress=False,
    )
    _train(rust, texts, vocabulary_size, trainer)
    pieces = sorted(rust.get_vocab(), key=rust.token_to_id)
    return word_piece_tokenizer(pieces, lowercase, strip_accents=False)


def train_byte_pairs(
    texts: Iterable[str], vocabulary_size: int, family: str = "gpt2"
) -> Tokenizer:
    """Trains a byte-level byte-pair tokenizer, like GPT-2's.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: the 256 bytes, the family's
            special tokens, such as `<|endoftext|>`, and merges.
        family: string. The decoder family of the tokenizer. Defaults to
            `"gpt2"`.

    Raises:
        UsageError: (a `ValueError`) if the size leaves no capacity for merges,
            or the texts have too few different words.

    References:
     - [Radford et al., 2019](
        https://d4mucfpksywv.cloudfront.net/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
        section 2.2
    """
    special = list(ALL_FAMILIES[family].special_tokens)
    rust = by_bytes(tokenizers.Tokenizer(models.BPE()))
    # Special tokens come last, as in GPT-2. keras-hub pads with the first
    # token, and its `generate` would take that for the end of the text.
    size = vocabulary_size - len(special)
    trainer = _by_bytes(
        trainers.BpeTrainer, size, [], min_frequency=MIN_FREQUENCY
    )
    _train(rust, texts, vocabulary_size, trainer, special)
    return Tokenizer(rust, {"start": special[0], "end": special[-1]})


def train_sentence_pieces(
    texts: Iterable[str],
    vocabulary_size: int,
    languages: Sequence[str] = (),
    model_type: str = "bpe",
) -> Tokenizer:
    """Trains one vocabulary on the texts of all languages together.

    Texts are spelled by bytes, so no character is unknown. Before that they are
    normalized by NFKC, and several blanks become one.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: `<pad>`, `<unk>`, `<s>`,
            `</s>`, `<mask>`, one for each language, 256 bytes, and pieces.
        languages: sequence of strings, such as `["en", "de"]`. Defaults to
            `()`.
        model_type: string. `"bpe"` for byte pairs, as in MASS, or `"unigram"`.
            Defaults to `"bpe"`.

    Raises:
        UsageError: (a `ValueError`) as in `train_byte_pairs`.

    References:
     - [Sennrich et al., 2016](https://arxiv.org/abs/1508.07909), byte pairs
     - [Kudo, 2018](https://arxiv.org/abs/1804.10959), unigrams
    """
    special = [*SPECIAL_TOKENS, *map(LANGUAGE.format, languages)]
    model, trainer, settings = models.BPE(), trainers.BpeTrainer, {}
    if model_type == "unigram":
        model, trainer = models.Unigram(), trainers.UnigramTrainer
        settings = {"unk_token": ROBERTA_TOKENS["unknown"]}
    rust = by_bytes(tokenizers.Tokenizer(model), add_prefix_space=True)
    blanks = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
    rust.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), blanks, normalizers.Strip()]
    )
    trainer = _by_bytes(trainer, vocabulary_size, special, **settings)
    _train(rust, texts, vocabulary_size, trainer)
    framed(rust, ROBERTA_TOKENS)
    return Tokenizer(rust, ROBERTA_TOKENS, languages=languages)


def _by_bytes(trainer, vocabulary_size, special, **settings):
    """Returns a trainer of pieces of bytes."""
    return trainer(
        vocab_size=vocabulary_size,
        special_tokens=special,
        initial_alphabet=BYTES,
        show_progress=False,
        **settings,
    )


def _train(rust, texts, vocabulary_size, trainer, last=()):
    """Trains a model in place; it must have the given number of tokens."""
    rust.train_from_iterator(texts, trainer)
    rust.add_special_tokens(list(last))
    if rust.get_vocab_size() != vocabulary_size:
        raise UsageError(
            f"The text has {rust.get_vocab_size()} pieces. Received: "
            f"vocabulary_size={vocabulary_size}."
        )
