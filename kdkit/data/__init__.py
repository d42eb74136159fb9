"""Data: reading, generating, encoding and batching sentences."""

from kdkit.data.augmented import AugmentedExamples
from kdkit.data.augmented import check_augmented
from kdkit.data.augmented import count_copies
from kdkit.data.augmented import read_copies
from kdkit.data.augmented import store_augmented
from kdkit.data.batching import WHOLE
from kdkit.data.batching import Shares
from kdkit.data.batching import bucket_boundaries
from kdkit.data.batching import epoch_batches
from kdkit.data.batching import evaluation_batches
from kdkit.data.batching import for_any_shape
from kdkit.data.batching import in_parts
from kdkit.data.batching import rows_within
from kdkit.data.batching import training_batches
from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import EncodedTokens
from kdkit.data.encoding import ReadableRows
from kdkit.data.encoding import TokenExamples
from kdkit.data.encoding import encode
from kdkit.data.encoding import encode_tokens
from kdkit.data.encoding import tokenize
from kdkit.data.examples import Examples
from kdkit.data.masking import Masker
from kdkit.data.masking import Masking
from kdkit.data.masking import SpanMasker
from kdkit.data.masking import SpanMasking
from kdkit.data.multiple_choice import Questions
from kdkit.data.multiple_choice import RaceLayout
from kdkit.data.multiple_choice import encode_questions
from kdkit.data.packing import PADDING
from kdkit.data.packing import PackedCorpus
from kdkit.data.packing import PackedRows
from kdkit.data.packing import open_packed
from kdkit.data.packing import pack
from kdkit.data.packing import pack_stream
from kdkit.data.sentences import EncodedSentences
from kdkit.data.sentences import PairRows
from kdkit.data.sentences import encode_sentences
from kdkit.data.sentences import join_sentences
from kdkit.data.synthetic import GENERATED_LANGUAGES
from kdkit.data.synthetic import generate_sentiment
from kdkit.data.synthetic import generated_pairs
from kdkit.data.synthetic import load_sentiment
from kdkit.data.synthetic import sentiment_vocabulary
from kdkit.data.tables import TableLayout
from kdkit.data.tables import read_table
from kdkit.data.text_batches import masked_evaluation_batches
from kdkit.data.text_batches import masked_training_batches
from kdkit.data.text_batches import next_token_evaluation_batches
from kdkit.data.text_batches import next_token_training_batches
from kdkit.data.text_batches import pair_batches
from kdkit.data.text_batches import pair_evaluation_batches
from kdkit.data.text_batches import plain_evaluation_batches
from kdkit.data.text_batches import plain_training_batches
from kdkit.data.text_batches import span_batches
from kdkit.data.text_batches import span_evaluation_batches
from kdkit.data.text_batches import token_batches
from kdkit.data.text_files import DETOKENIZERS
from kdkit.data.text_files import Corpus
from kdkit.data.text_files import ParallelText
from kdkit.data.token_files import ConllLayout
from kdkit.data.token_files import PolyphoneLayout
from kdkit.data.token_files import character_vocabulary
from kdkit.data.unlabeled import mixed_training_batches
from kdkit.data.unlabeled import normalized
from kdkit.data.unlabeled import read_unlabeled
from kdkit.data.unlabeled import repeated_rows
from kdkit.data.unlabeled import unlabeled_rows
from kdkit.data.unlabeled import without_texts_of
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
