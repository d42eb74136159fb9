"""Data: reading, generating, encoding and batching sentences."""

from kdkit.data.augmented import AugmentedExamples
from kdkit.data.augmented import check_augmented
from kdkit.data.augmented import count_copies
from kdkit.data.augmented import read_copies
from kdkit.data.augmented import store_augmented
from kdkit.data.candidates import Candidates
from kdkit.data.candidates import read_candidates
from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import EncodedTokens
from kdkit.data.encoding import TokenExamples
from kdkit.data.encoding import encode
from kdkit.data.encoding import encode_tokens
from kdkit.data.encoding import tokenize
from kdkit.data.examples import Examples
from kdkit.data.labeled_tables import LabeledTable
from kdkit.data.masking import Masker
from kdkit.data.masking import Masking
from kdkit.data.masking import SpanMasker
from kdkit.data.masking import SpanMasking
from kdkit.data.multiple_choice import Questions
from kdkit.data.multiple_choice import RaceLayout
from kdkit.data.multiple_choice import encode_questions
from kdkit.data.orders import Buckets
from kdkit.data.orders import FullBatches
from kdkit.data.orders import TokenBatches
from kdkit.data.orders import bucket_boundaries
from kdkit.data.orders import epoch_batches
from kdkit.data.orders import token_batches
from kdkit.data.packing import PADDING
from kdkit.data.packing import MaskedRows
from kdkit.data.packing import PackedCorpus
from kdkit.data.packing import PackedRows
from kdkit.data.packing import open_packed
from kdkit.data.packing import pack
from kdkit.data.packing import pack_stream
from kdkit.data.retrieval import Retrieval
from kdkit.data.retrieval import read_retrieval
from kdkit.data.sentences import EncodedSentences
from kdkit.data.sentences import PairRows
from kdkit.data.sentences import SpanRows
from kdkit.data.sentences import encode_sentences
from kdkit.data.sentences import join_sentences
from kdkit.data.stream import WHOLE
from kdkit.data.stream import BatchStream
from kdkit.data.stream import CacheableDataset
from kdkit.data.stream import SequenceDataset
from kdkit.data.stream import Shares
from kdkit.data.stream import for_any_shape
from kdkit.data.stream import parts_of
from kdkit.data.stream import rows_within
from kdkit.data.synthetic import GENERATED_LANGUAGES
from kdkit.data.synthetic import generate_sentiment
from kdkit.data.synthetic import generated_pairs
from kdkit.data.synthetic import load_candidates
from kdkit.data.synthetic import load_sentiment
from kdkit.data.synthetic import sentiment_vocabulary
from kdkit.data.table_layouts import TableLayout
from kdkit.data.table_layouts import read_table
from kdkit.data.tables import open_table
from kdkit.data.text_files import DETOKENIZERS
from kdkit.data.text_files import Corpus
from kdkit.data.text_files import ParallelLines
from kdkit.data.text_files import ParallelText
from kdkit.data.token_files import ConllLayout
from kdkit.data.token_files import PolyphoneLayout
from kdkit.data.token_files import character_vocabulary
from kdkit.data.unlabeled import mix_unlabeled
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
    "BatchStream",
    "Buckets",
    "Candidates",
    "ConllLayout",
    "Corpus",
    "EncodedExamples",
    "EncodedTokens",
    "Examples",
    "FullBatches",
    "LabeledTable",
    "MaskedRows",
    "Masker",
    "Masking",
    "PackedCorpus",
    "PackedRows",
    "PairRows",
    "EncodedSentences",
    "ParallelLines",
    "ParallelText",
    "PolyphoneLayout",
    "Questions",
    "RaceLayout",
    "Retrieval",
    "CacheableDataset",
    "SequenceDataset",
    "Shares",
    "SpanMasker",
    "SpanMasking",
    "SpanRows",
    "TableLayout",
    "TokenBatches",
    "TokenExamples",
    "bucket_boundaries",
    "character_vocabulary",
    "check_augmented",
    "count_copies",
    "encode",
    "encode_questions",
    "encode_tokens",
    "epoch_batches",
    "for_any_shape",
    "generate_sentiment",
    "generated_pairs",
    "load_candidates",
    "load_sentiment",
    "encode_sentences",
    "join_sentences",
    "token_batches",
    "mix_unlabeled",
    "normalized",
    "open_packed",
    "open_table",
    "pack",
    "pack_stream",
    "parts_of",
    "read_all_word_vectors",
    "read_candidates",
    "read_copies",
    "read_retrieval",
    "read_table",
    "read_unlabeled",
    "read_word_vectors",
    "rows_within",
    "sentiment_vocabulary",
    "store_augmented",
    "tokenize",
    "repeated_rows",
    "unlabeled_rows",
    "without_texts_of",
    "word_vector_width",
    "words_of_pieces",
]
