"""Data: reading, generating, encoding and batching sentences."""

from kdkit.data.batching import evaluation_batches
from kdkit.data.batching import training_batches
from kdkit.data.bucketing import bucket_boundaries
from kdkit.data.bucketing import epoch_batches
from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import encode
from kdkit.data.examples import Examples
from kdkit.data.sentiment import generate_sentiment
from kdkit.data.sentiment import sentiment_vocabulary
from kdkit.data.tables import TableLayout
from kdkit.data.tables import read_table

__all__ = [
    "EncodedExamples",
    "Examples",
    "TableLayout",
    "bucket_boundaries",
    "encode",
    "epoch_batches",
    "evaluation_batches",
    "generate_sentiment",
    "read_table",
    "sentiment_vocabulary",
    "training_batches",
]
