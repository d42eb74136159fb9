"""Word-piece tokenizers of Hugging Face checkpoints: BERT's and their kind."""

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.hugging_face_files import WHOLE
from kdkit.models.hugging_face_files import WHOLE_CLASSES
from kdkit.models.hugging_face_files import TokenizerFiles
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import WORD_LENGTH
from kdkit.models.text_rules import TextRules
from kdkit.models.text_rules import bert_rules
from kdkit.models.text_rules import read_normalizer
from kdkit.models.trust import loading
from kdkit.reading import numbered_lines

VOCABULARY = "vocab.txt"
# In transformers all of these are the class of BERT's tokenizer.
CLASSES = ("", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
SPECIAL = {
    "cls": "[CLS]",
    "sep": "[SEP]",
    "pad": "[PAD]",
    "mask": "[MASK]",
}
PRE_TOKENIZER = "BertPreTokenizer"
KIND = "WordPiece"


def read_word_pieces(files: TokenizerFiles, cls):
    """Returns the word-piece tokenizer of a checkpoint, with its rules.

    Args:
        files: `TokenizerFiles`.
        cls: subclass of `keras_hub.tokenizers.WordPieceTokenizer`.

    Raises:
        UsageError: (a `ValueError`) if a file is missing or damaged, or the
            tokenizer has what neither keras-hub nor kdkit can do.
    """
    files.require_class(*CLASSES, *WHOLE_CLASSES)
    unknown = files.special_token("unk", "[UNK]")
    special = [*files.require_special(SPECIAL), unknown]
    model = files.model(KIND)
    vocabulary, added = files.all_tokens(_pieces(files), special)
    missing = [one for one in special if one not in vocabulary]
    if missing:
        raise UsageError(
            f"The vocabulary in {files.path} does not fit BERT. Expected "
            f"{special} in it. Missing: {', '.join(missing)}."
        )
    settings = {"oov_token": unknown}
    if files.is_whole:
        rules = TextRules(
            read_normalizer(files.whole.get("normalizer"), files.path / WHOLE),
            added,
            _of_type(model, "max_input_chars_per_word", WORD_LENGTH, files),
        )
        settings["oov_token"] = _of_type(model, "unk_token", "[UNK]", files)
        settings["suffix_indicator"] = _of_type(
            model, "continuing_subword_prefix", "##", files
        )
        _require_pre_tokenizer(files)
    else:
        rules = bert_rules(
            files.setting("do_lower_case", True),
            files.setting("strip_accents", None),
            files.setting("tokenize_chinese_chars", True),
            added_tokens=added,
        )
    with loading(files.path):
        return with_rules(cls(vocabulary, **settings), rules)


def _pieces(files):
    """The vocabulary by piece."""
    if files.whole:
        return files.pieces(KIND)
    if not (files.path / VOCABULARY).is_file():
        raise UsageError(
            f"No vocabulary in {files.path}. Expected {WHOLE} or {VOCABULARY}. "
            "Copy the files of the tokenizer next to the model's."
        )
    return {
        line.rstrip(): number - 1
        for number, line in numbered_lines(
            files.path / VOCABULARY, "a vocabulary, one piece a line"
        )
    }


def _require_pre_tokenizer(files):
    splitter = files.whole.get("pre_tokenizer")
    name = splitter.get("type") if isinstance(splitter, dict) else splitter
    if name != PRE_TOKENIZER:
        raise UsageError(
            f"{files.path / WHOLE} splits texts by {shortened(name)}. Expected "
            f"{PRE_TOKENIZER!r}, as BERT does. Use a checkpoint with such a "
            "tokenizer."
        )


def _of_type(model, name, default, files):
    value = model.get(name, default)
    if type(value) is not type(default) or not value:
        raise UsageError(
            f"{files.path / WHOLE} is damaged. Expected a "
            f"{type(default).__name__} as {name!r}. Received: "
            f"{shortened(value)}."
        )
    return value
