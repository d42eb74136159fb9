"""Teachers and students: sizes, building, starting weights, loading."""

from kdkit.models.architecture import architecture
from kdkit.models.architecture import num_positions
from kdkit.models.architecture import token_embeddings
from kdkit.models.bilstm import set_word_vectors
from kdkit.models.byte_pairs import byte_pair_files
from kdkit.models.byte_pairs import train_byte_pairs
from kdkit.models.copying import choose_blocks
from kdkit.models.copying import student_of_blocks
from kdkit.models.file_digests import forget_process
from kdkit.models.heads import HEADS
from kdkit.models.heads import Head
from kdkit.models.heads import add_head
from kdkit.models.heads import backbone_of
from kdkit.models.heads import has_encoder
from kdkit.models.heads import in_policy
from kdkit.models.initialization import initialize_from_teacher
from kdkit.models.language_models import frozen_pooler
from kdkit.models.language_models import has_decoder
from kdkit.models.language_models import has_encoder_decoder
from kdkit.models.language_models import has_language_model
from kdkit.models.language_models import is_causal
from kdkit.models.language_models import is_encoder_decoder
from kdkit.models.language_models import language_model
from kdkit.models.language_models import load_language_model
from kdkit.models.language_models import load_masked_lm
from kdkit.models.language_models import save_language_model
from kdkit.models.loading import TOKENIZER_DIRECTORY
from kdkit.models.loading import LoadedModel
from kdkit.models.loading import load_classifier
from kdkit.models.loading import load_encoder
from kdkit.models.loading import load_tokenizer
from kdkit.models.loading import model_files
from kdkit.models.loading_checks import check_num_classes
from kdkit.models.mass import MassBackbone
from kdkit.models.mass_lm import MassSeq2SeqLM
from kdkit.models.mass_preprocessor import MassSeq2SeqLMPreprocessor
from kdkit.models.noise import perturbed
from kdkit.models.presets import PRESETS
from kdkit.models.presets import BertConfig
from kdkit.models.presets import BilstmConfig
from kdkit.models.presets import MassConfig
from kdkit.models.presets import Preset
from kdkit.models.room import least_parameters
from kdkit.models.ruled_tokenizers import tokenizer_rules
from kdkit.models.saving import LABELS_FILE
from kdkit.models.saving import save_encoder
from kdkit.models.saving import save_labels
from kdkit.models.saving import save_preset
from kdkit.models.saving import stored_size
from kdkit.models.sentence_pieces import MassTokenizer
from kdkit.models.sentence_pieces import train_sentence_pieces
from kdkit.models.students import student
from kdkit.models.students import student_config
from kdkit.models.tokenizer_pair import TokenizerPair
from kdkit.models.tokenizer_pair import check_sentence_pieces
from kdkit.models.tokenizer_pair import languages_of
from kdkit.models.tokenizer_pair import tokenizers_of_sides
from kdkit.models.tokens import check_same_ids
from kdkit.models.tokens import family_tokenizer
from kdkit.models.tokens import load_saved_tokenizer
from kdkit.models.tokens import save_tokenizer
from kdkit.models.tokens import tokenizer_of_family
from kdkit.models.tokens import vocabulary_by_id
from kdkit.models.word_pieces import word_piece_tokenizer

__all__ = [
    "HEADS",
    "LABELS_FILE",
    "PRESETS",
    "TOKENIZER_DIRECTORY",
    "BertConfig",
    "BilstmConfig",
    "Head",
    "LoadedModel",
    "MassBackbone",
    "MassConfig",
    "MassSeq2SeqLM",
    "MassSeq2SeqLMPreprocessor",
    "MassTokenizer",
    "Preset",
    "TokenizerPair",
    "add_head",
    "architecture",
    "backbone_of",
    "byte_pair_files",
    "check_num_classes",
    "check_same_ids",
    "check_sentence_pieces",
    "choose_blocks",
    "family_tokenizer",
    "forget_process",
    "frozen_pooler",
    "has_decoder",
    "has_encoder",
    "has_encoder_decoder",
    "has_language_model",
    "in_policy",
    "initialize_from_teacher",
    "is_causal",
    "is_encoder_decoder",
    "language_model",
    "languages_of",
    "least_parameters",
    "load_classifier",
    "load_encoder",
    "load_language_model",
    "load_masked_lm",
    "load_saved_tokenizer",
    "load_tokenizer",
    "model_files",
    "num_positions",
    "perturbed",
    "save_encoder",
    "save_labels",
    "save_language_model",
    "save_preset",
    "save_tokenizer",
    "set_word_vectors",
    "stored_size",
    "student",
    "train_sentence_pieces",
    "student_config",
    "student_of_blocks",
    "token_embeddings",
    "tokenizer_of_family",
    "tokenizer_rules",
    "tokenizers_of_sides",
    "train_byte_pairs",
    "vocabulary_by_id",
    "word_piece_tokenizer",
]
