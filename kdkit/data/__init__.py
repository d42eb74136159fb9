"""Data: reading, generating, encoding and batching sentences."""

from kdkit.data.augmented import (
    AugmentedExamples,
    count_copies,
    read_copies,
    store_augmented,
)
from kdkit.data.encoding import (
    EncodedExamples,
    EncodedTokens,
    TokenExamples,
    encode,
    encode_tokens,
    tokenize,
)
from kdkit.data.layouts import (
    ConllLayout,
    PolyphoneLayout,
    RaceLayout,
    TableLayout,
    read_table,
)
from kdkit.data.masking import Masker, Masking, SpanMasker, SpanMasking
from kdkit.data.multiple_choice import Questions, encode_questions
from kdkit.data.orders import (
    Buckets,
    FullBatches,
    TokenBatches,
    bucket_boundaries,
    epoch_batches,
    token_batches,
)
from kdkit.data.own_tables import LabeledTable
from kdkit.data.packing import (
    PADDING,
    MaskedRows,
    PackedCorpus,
    PackedRows,
    open_packed,
    pack,
    pack_stream,
)
from kdkit.data.retrieval import (
    Candidates,
    Retrieval,
    read_candidates,
    read_retrieval,
)
from kdkit.data.selection import normalized
from kdkit.data.sentences import (
    EncodedSentences,
    PairRows,
    SpanRows,
    encode_sentences,
    join_sentences,
)
from kdkit.data.stream import (
    WHOLE,
    BatchStream,
    CacheableDataset,
    SequenceDataset,
    Shares,
    for_any_shape,
    parts_of,
    rows_within,
)
from kdkit.data.synthetic import (
    GENERATED_LANGUAGES,
    generate_sentiment,
    generated_pairs,
    load_candidates,
    load_sentiment,
    sentiment_vocabulary,
)
from kdkit.data.tables import Examples, open_table
from kdkit.data.texts import DETOKENIZERS, Corpus, ParallelText
from kdkit.data.unlabeled import (
    mix_unlabeled,
    read_unlabeled,
    repeated_rows,
    unlabeled_rows,
    without_texts_of,
)
from kdkit.data.word_vectors import (
    read_all_word_vectors,
    read_word_vectors,
    word_vector_width,
    words_of_pieces,
)

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
