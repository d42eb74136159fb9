"""Data: reading, generating, encoding and batching sentences."""

from kdkit.data.any_shape import for_any_shape
from kdkit.data.augmented import AugmentedExamples
from kdkit.data.augmented import store_augmented
from kdkit.data.batching import evaluation_batches
from kdkit.data.batching import rows_within
from kdkit.data.batching import training_batches
from kdkit.data.bucketing import bucket_boundaries
from kdkit.data.bucketing import epoch_batches
from kdkit.data.choices import Questions
from kdkit.data.choices import encode_questions
from kdkit.data.conll import ConllLayout
from kdkit.data.copies import check_augmented
from kdkit.data.copies import count_copies
from kdkit.data.copies import read_copies
from kdkit.data.corpus import Corpus
from kdkit.data.detokenizing import DETOKENIZERS
from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import encode
from kdkit.data.encoding import tokenize
from kdkit.data.examples import Examples
from kdkit.data.masking import Masker
from kdkit.data.masking import Masking
from kdkit.data.mixing import mixed_training_batches
from kdkit.data.mixing import repeated_rows
from kdkit.data.mixing import unlabeled_rows
from kdkit.data.packed_batches import masked_evaluation_batches
from kdkit.data.packed_batches import masked_training_batches
from kdkit.data.packed_batches import next_token_evaluation_batches
from kdkit.data.packed_batches import next_token_training_batches
from kdkit.data.packed_batches import plain_evaluation_batches
from kdkit.data.packed_batches import plain_training_batches
from kdkit.data.packed_rows import PackedRows
from kdkit.data.packing import PADDING
from kdkit.data.packing import PackedCorpus
from kdkit.data.packing import open_packed
from kdkit.data.packing import pack
from kdkit.data.packing import pack_stream
from kdkit.data.pair_rows import PairRows
from kdkit.data.parallel import ParallelText
from kdkit.data.parts import in_parts
from kdkit.data.polyphones import PolyphoneLayout
from kdkit.data.polyphones import character_vocabulary
from kdkit.data.race import RaceLayout
from kdkit.data.readable_rows import ReadableRows
from kdkit.data.sentence_batches import pair_batches
from kdkit.data.sentence_batches import pair_evaluation_batches
from kdkit.data.sentence_batches import span_batches
from kdkit.data.sentence_batches import span_evaluation_batches
from kdkit.data.sentence_batches import token_batches
from kdkit.data.sentences import EncodedSentences
from kdkit.data.sentences import encode_sentences
from kdkit.data.sentences import join_sentences
from kdkit.data.sentiment import generate_sentiment
from kdkit.data.sentiment import load_sentiment
from kdkit.data.sentiment import sentiment_vocabulary
from kdkit.data.shares import WHOLE
from kdkit.data.shares import Shares
from kdkit.data.spans import SpanMasker
from kdkit.data.spans import SpanMasking
from kdkit.data.tables import TableLayout
from kdkit.data.tables import read_table
from kdkit.data.tokens import EncodedTokens
from kdkit.data.tokens import TokenExamples
from kdkit.data.tokens import encode_tokens
from kdkit.data.unlabeled import normalized
from kdkit.data.unlabeled import read_unlabeled
from kdkit.data.unlabeled import without_texts_of
from kdkit.data.word_by_word import GENERATED_LANGUAGES
from kdkit.data.word_by_word import generated_pairs
from kdkit.data.word_vectors import read_all_word_vectors
from kdkit.data.word_vectors import read_word_vectors
from kdkit.data.word_vectors import word_vector_width
from kdkit.data.word_vectors import words_of_pieces

__all__ = [
    "PADDING",
    "WHOLE",
    "DETOKENIZERS",
    "GENERATED_LANGUAGES",
    "AugmentedExamples",
    "ConllLayout",
    "Corpus",
    "EncodedExamples",
    "EncodedTokens",
    "Examples",
    "Masker",
    "Masking",
    "PackedCorpus",
    "PackedRows",
    "PairRows",
    "EncodedSentences",
    "ParallelText",
    "PolyphoneLayout",
    "Questions",
    "RaceLayout",
    "ReadableRows",
    "Shares",
    "SpanMasker",
    "SpanMasking",
    "TableLayout",
    "TokenExamples",
    "bucket_boundaries",
    "character_vocabulary",
    "check_augmented",
    "count_copies",
    "encode",
    "encode_questions",
    "encode_tokens",
    "epoch_batches",
    "evaluation_batches",
    "for_any_shape",
    "generate_sentiment",
    "generated_pairs",
    "load_sentiment",
    "encode_sentences",
    "join_sentences",
    "pair_batches",
    "pair_evaluation_batches",
    "span_batches",
    "span_evaluation_batches",
    "token_batches",
    "masked_evaluation_batches",
    "in_parts",
    "masked_training_batches",
    "mixed_training_batches",
    "next_token_evaluation_batches",
    "next_token_training_batches",
    "normalized",
    "open_packed",
    "pack",
    "pack_stream",
    "plain_evaluation_batches",
    "plain_training_batches",
    "read_all_word_vectors",
    "read_copies",
    "read_table",
    "read_unlabeled",
    "read_word_vectors",
    "rows_within",
    "sentiment_vocabulary",
    "store_augmented",
    "tokenize",
    "training_batches",
    "repeated_rows",
    "unlabeled_rows",
    "without_texts_of",
    "word_vector_width",
    "words_of_pieces",
]
