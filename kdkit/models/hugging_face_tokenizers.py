"""The tokenizers of Hugging Face checkpoints: one reader for each kind.

What they are is what transformers 5 makes of the same files.
"""

import keras_hub

from kdkit.models.hugging_face_byte_pairs import read_byte_pairs
from kdkit.models.hugging_face_files import TokenizerFiles
from kdkit.models.hugging_face_files import tokenizer_files
from kdkit.models.hugging_face_unigrams import read_unigrams
from kdkit.models.hugging_face_word_pieces import read_word_pieces

# By the class of keras-hub that a tokenizer becomes: a callable of the files
# and the class.
READERS = {
    keras_hub.tokenizers.WordPieceTokenizer: read_word_pieces,
    keras_hub.tokenizers.BytePairTokenizer: read_byte_pairs,
    keras_hub.tokenizers.SentencePieceTokenizer: read_unigrams,
}


def read_tokenizer(path, family):
    """Returns the tokenizer of a Hugging Face checkpoint directory.

    Args:
        path: path of the directory.
        family: `kdkit.families.Family` of its model.

    Returns:
        A keras-hub tokenizer of the family, with the rules for texts that its
        files name, see `kdkit.models.tokenizer_rules`.

    Raises:
        UsageError: (a `ValueError`) if a file is missing or damaged, or the
            tokenizer has what neither keras-hub nor kdkit can do.
    """
    files = tokenizer_files(path)
    cls = _tokenizer_class(files, family)
    for base, read in READERS.items():
        if issubclass(cls, base):
            return read(files, cls)
    return keras_hub.tokenizers.Tokenizer.from_preset(str(path))


def _tokenizer_class(files: TokenizerFiles, family):
    """The class in keras-hub; a BERT may have XLM-RoBERTa's pieces."""
    if files.class_name == "XLMRobertaTokenizer":
        return keras_hub.tokenizers.XLMRobertaTokenizer
    return family.tokenizer
