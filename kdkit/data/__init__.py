"""Data: reading, generating, encoding and batching sentences.

Names are imported when they are first used, so that configs are read without
NumPy.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "BatchStream": "stream",
    "Buckets": "orders",
    "DETOKENIZERS": "texts",
    "EncodedExamples": "encoding",
    "EncodedSentences": "sentences",
    "EncodedTokens": "encoding",
    "Examples": "tables",
    "FullBatches": "orders",
    "GENERATED_LANGUAGES": "synthetic",
    "LabeledTable": "own_tables",
    "MaskedRows": "packing",
    "Masker": "masking",
    "Masking": "masking",
    "PADDING": "packing",
    "PackedCorpus": "packing",
    "PackedRows": "packing",
    "PairRows": "sentences",
    "Questions": "multiple_choice",
    "SequenceDataset": "stream",
    "SpanMasker": "masking",
    "SpanMasking": "masking",
    "SpanRows": "sentences",
    "TableLayout": "layouts",
    "TokenBatches": "orders",
    "TokenExamples": "encoding",
    "encode": "encoding",
    "encode_questions": "multiple_choice",
    "encode_sentences": "sentences",
    "encode_tokens": "encoding",
    "generate_sentiment": "synthetic",
    "generated_pairs": "synthetic",
    "join_sentences": "sentences",
    "load_candidates": "synthetic",
    "load_sentiment": "synthetic",
    "open_packed": "packing",
    "open_table": "tables",
    "pack": "packing",
    "pack_stream": "packing",
    "sentiment_vocabulary": "synthetic",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
