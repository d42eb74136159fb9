"""What would be another model, or other ids, is refused where it is made."""

import functools
import json

import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.helpers import bert

from kdkit import data, models
from kdkit.errors import RunError, UsageError
from kdkit.models import (
    heads,
    hugging_face_saving,
    ruled_tokenizers,
    text_rules,
    vocabularies,
)
from kdkit.models.families import ALL_FAMILIES, Family, register_family
from kdkit.models.tokenizer_json import to_tokenizer_json

SIZES = {
    "num_layers": 2,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "vocabulary_size": 20,
    "max_sequence_length": 12,
}
TEXT = ["the cast is good and the plot is superb", "a dull plot", "the end"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "plot"]
CONVENTIONS = "config_sentence_transformers.json"
bare = functools.partial(encoders.encoder, num_classes=None)


def written(place, name, value):
    """Writes a JSON file; returns its folder."""
    (place / name).write_text(json.dumps(value))
    return place


def saved(place, num_classes=2, **settings):
    """Writes a preset of a classifier, or of an encoder for no classes."""
    tokenizer = keras_hub.tokenizers.BertTokenizer(WORDS, **settings)
    model = bert(num_layers=1, num_classes=num_classes)
    if num_classes is None:
        models.save_encoder(model, tokenizer, place)
    else:
        models.save_preset(model, tokenizer, place, 6)
    return place


def started(layers):
    models.initialize_from_teacher(bert(2), bert(2), layers)


def shared():
    """An ALBERT of one group starts from one of two."""
    student = models.student(SIZES, family="albert")
    sizes = {**student.get_config(), "num_groups": 2, "name": None}
    teacher = keras_hub.models.AlbertBackbone.from_config(sizes)
    models.initialize_from_teacher(student, teacher, [1, 2])


def with_added_token(number):
    token = text_rules.AddedToken("film", number)
    rules = text_rules.bert_rules(True, added_tokens=(token,))
    tokenizer = keras_hub.tokenizers.BertTokenizer(WORDS)
    return ruled_tokenizers.with_rules(tokenizer, rules)


def with_roles(**roles):
    """A tokenizer whose vocabulary is the same, with other special tokens."""
    tokenizer = encoders.tokenizer("bert")
    for name, number in roles.items():
        setattr(tokenizer, name, number)
    return tokenizer


def tied_llama():
    backbone = models.student(SIZES, family="llama3")
    backbone.tie_word_embeddings = True
    return backbone


def set_vectors(**changes):
    tokenizer = models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    model = models.make_static_embedder(tokenizer, 4)
    arguments = {
        "vectors": models.token_vectors(model),
        "token_ids": np.array([5, 6, 7, 8]),
        "lengths": np.array([1, 3]),
        **changes,
    }
    models.set_token_vectors(model, tokenizer=tokenizer, **arguments)


def checkpoint_of(model, class_names=None):
    return lambda place: models.save_hugging_face(
        model(), None, place / "checkpoint", class_names
    )


def of_other_epsilon():
    settings = {"layer_norm_epsilon": 1e-3}
    return models.variants.with_settings(bare("distil_bert"), settings)


def of_probabilities():
    return keras_hub.models.BertTextClassifier(
        bare("bert"), num_classes=2, activation="softmax"
    )


def of_candidates():
    head = heads.Head("tokens", 2, candidates={"good": (1,)})
    tokenizer = models.word_piece_tokenizer(WORDS, lowercase=True)
    return heads.add_head(bare("bert"), head, tokenizer)


MISTAKES = {
    # Sizes and layers.
    "student": (lambda place: models.student("tinybert"), "tinybert_4_layer"),
    "family": (
        lambda place: models.student_config(SIZES, family="t5"),
        "distil_bert",
    ),
    "size of other families": (
        lambda place: models.student_config(SIZES, embedding_dim=4),
        "bert has no embedding_dim",
    ),
    "no layers": (
        lambda place: models.student_config(SIZES, num_layers=0),
        "num_layers .* above 0",
    ),
    "no embeddings": (
        lambda place: models.student_config(
            SIZES, family="electra", embedding_dim=0
        ),
        "embedding_dim .* above 0",
    ),
    "dropout": (lambda place: models.student_config(SIZES, dropout=1.5), "1.5"),
    "heads": (
        lambda place: models.student_config(SIZES, num_heads=3),
        "divide",
    ),
    "texts of a BiLSTM": (
        lambda place: models.student_config(models.BilstmConfig(num_texts=3)),
        "1 or 2",
    ),
    "layer 0": (
        lambda place: started([0, 1]),
        r"from 1 to 2. .*\[0, 1\]",
    ),
    "too many layers": (lambda place: started([1, 2, 2]), "2 layers"),
    "shared layers": (lambda place: shared(), "shares"),
    "rule": (lambda place: models.choose_blocks("last", 12, 6), "spread"),
    "more blocks": (lambda place: models.choose_blocks("spread", 3, 4), "3"),
    "tied Llama": (
        lambda place: ALL_FAMILIES["llama3"].config(tied_llama()),
        "tied",
    ),
    "family's name": (
        lambda place: register_family(type("B", (Family,), {"name": "bert"})),
        "bert",
    ),
    # Heads and poolings.
    "kind of head": (lambda place: models.Head("span", 2), "multiple_choice"),
    "pooling": (lambda place: models.Pooling("last"), "mean"),
    "no pooling": (
        lambda place: models.load_embedder(saved(place, None)),
        "does not describe its pooling",
    ),
    "pooling of a checkpoint": (
        lambda place: models.load_embedder(saved(place, None), "lasttoken"),
        "lasttoken",
    ),
    "components": (
        lambda place: models.principal_components(np.eye(3), 3),
        "3 vectors",
    ),
    "components of NaN": (
        lambda place: models.principal_components(np.full((4, 2), np.nan), 1),
        "finite",
    ),
    "similarity": (
        lambda place: models.conventions_at(
            written(place, CONVENTIONS, {"similarity_fn_name": "hamming"})
        ),
        "hamming",
    ),
    "default prompt": (
        lambda place: models.conventions_at(
            written(place, CONVENTIONS, {"default_prompt_name": "x"})
        ),
        "default_prompt_name 'x'",
    ),
    "reranker without a head": (
        lambda place: models.load_reranker(saved(place, None)),
        "has_trained_head=False",
    ),
    "reranker of three classes": (
        lambda place: models.load_reranker(saved(place, 3)),
        "3 classes",
    ),
    # Static embedders.
    "SIF": (lambda place: set_vectors(sif=0.0), "sif=0.0"),
    "vectors": (
        lambda place: set_vectors(
            vectors=np.full((len(data.sentiment_vocabulary()), 4), np.nan)
        ),
        "not finite",
    ),
    "lengths": (lambda place: set_vectors(lengths=np.array([3])), "3 tokens"),
    "special tokens alone": (
        lambda place: set_vectors(token_ids=np.array([2, 3, 2, 3])),
        "no tokens",
    ),
    # Vocabularies.
    "file of byte pairs": (
        lambda place: vocabularies.byte_pair_files("tokens.json"),
        "vocab.json",
    ),
    "ids with a hole": (
        lambda place: vocabularies.read_vocabulary(
            written(place, "vocab.json", {"a": 0, "b": 2}) / "vocab.json"
        ),
        "each id",
    ),
    "too few byte pairs": (
        lambda place: models.train_byte_pairs(TEXT, 100),
        "vocabulary_size=100",
    ),
    "too many byte pairs": (
        lambda place: models.train_byte_pairs(TEXT, 9999),
        "vocabulary_size=9999",
    ),
    "too few word pieces": (
        lambda place: models.train_word_pieces(TEXT, 9),
        "vocabulary_size=9",
    ),
    "too many word pieces": (
        lambda place: models.train_word_pieces(TEXT, 5000),
        "vocabulary_size=5000",
    ),
    "rules": (
        lambda place: text_rules.read_normalizer({"type": "Nmt"}, "x"),
        "NFKD",
    ),
    "pattern": (
        lambda place: text_rules.read_normalizer(
            {"type": "Replace", "pattern": {"Regex": "a+"}}, "x"
        ),
        "Regex",
    ),
    "added token": (lambda place: with_added_token(5), "film"),
    # Pairs of tokenizers.
    "other words": (
        lambda place: models.check_same_ids(
            encoders.tokenizer("bert"),
            models.word_piece_tokenizer(WORDS, lowercase=True),
        ),
        "other vocabularies, of 20 and 7",
    ),
    "other rules": (
        lambda place: models.check_same_ids(
            *(models.word_piece_tokenizer(WORDS, lower) for lower in (0, 1))
        ),
        "other rules",
    ),
    "other special tokens": (
        lambda place: models.check_same_ids(
            encoders.tokenizer("bert"), with_roles(end_token_id=5)
        ),
        "end_token_id is 3 and 5",
    ),
    "tokens of another kind": (
        lambda place: models.family_tokenizer(
            bare("roberta"), encoders.tokenizer("bert")
        ),
        "RoBERTa cannot use .* BertTokenizer",
    ),
    # Presets and files.
    "no model": (lambda place: models.load_classifier(place, 2), "No model"),
    "no preset": (
        lambda place: models.load_encoder("bert_tiny"),
        "preset bert_tiny",
    ),
    "no preset of an embedder": (
        lambda place: models.load_embedder("bert_tiny"),
        "preset bert_tiny",
    ),
    "run without a model": (
        lambda place: models.load_encoder(
            written(saved(place), "metrics.jsonl", {})
        ),
        "No model",
    ),
    "classes": (lambda place: models.load_classifier(saved(place), 3), "has 2"),
    "names of classes": (
        lambda place: models.load_classifier(
            written(saved(place), "labels.json", {"classes": ["x", "y"]}),
            models.Head("sequence", 2, ("y", "x")),
        ),
        r"Expected \['y', 'x'\]",
    ),
    "checkpoint of another family": (
        lambda place: models.load_classifier(
            written(place, "config.json", {"model_type": "electra"}), 2
        ),
        "model_type .* 'electra'",
    ),
    "padding tokenizer": (
        lambda place: models.load_classifier(
            saved(place, sequence_length=8), 2
        ),
        "sequence_length=None",
    ),
    # Hugging Face checkpoints.
    "family of no checkpoint": (
        checkpoint_of(lambda: bare("deberta_v3")),
        "RoBERTa",
    ),
    "epsilon": (checkpoint_of(of_other_epsilon), "0.001"),
    "probabilities": (checkpoint_of(of_probabilities), "softmax"),
    "candidates": (checkpoint_of(of_candidates), "candidate"),
    "names of logits": (
        checkpoint_of(lambda: bert(1), ("a", "a", "b")),
        "3 different names",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_where_it_is_made(name, tmp_path):
    mistake, word = MISTAKES[name]
    with pytest.raises(UsageError, match=word):
        mistake(tmp_path)


def test_a_written_tokenizer_of_other_ids_is_no_file(tmp_path):
    made = to_tokenizer_json(models.word_piece_tokenizer(WORDS, True))
    made.save(str(tmp_path / "tokenizer.json"))
    other = models.word_piece_tokenizer(WORDS[::-1], True)
    with pytest.raises(RunError, match="other ids"):
        hugging_face_saving.require_same_ids(other, tmp_path)


@pytest.fixture
def sentence_pieces_tokenizer(sentence_pieces):
    return models.MassTokenizer(sentence_pieces)


def test_sentence_pieces_without_a_language_or_a_file_are_refused(
    sentence_pieces_tokenizer,
):
    with pytest.raises(UsageError, match="'fr'. .* en, de"):
        sentence_pieces_tokenizer.language_token_id("fr")
    with pytest.raises(UsageError, match="MassTokenizer"):
        to_tokenizer_json(sentence_pieces_tokenizer)
    with pytest.raises(UsageError, match="<mask>"):
        models.MassTokenizer(encoders.tokenizer("albert").proto)
