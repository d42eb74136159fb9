"""What would be another model, or other ids, is refused where it is made."""

import functools
import json

import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.helpers import bert, save_classifier

from kdkit import data, models
from kdkit.models.embedders import principal_components
from kdkit.models.students import student_config
from kdkit.models.tokenizer_files import byte_pair_files

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
MADE = models.word_piece_tokenizer(WORDS, lowercase=True)
bare = functools.partial(encoders.encoder, num_classes=None)


def written(place, name, value):
    """Writes a JSON file, and merges; returns its folder."""
    (place / "merges.txt").write_text("")
    (place / name).write_text(json.dumps(value))
    return place


def saved(place, num_classes=2, **settings):
    """Writes a preset of a classifier, or of an encoder for no classes."""
    tokenizer = keras_hub.tokenizers.BertTokenizer(WORDS, **settings)
    model = bert(num_layers=1, num_classes=num_classes)
    if num_classes is None:
        models.save_model(models.LoadedModel(model, tokenizer), place)
    else:
        save_classifier(model, tokenizer, place, 6)
    return place


def started(layers):
    models.initialize_from_teacher(bert(2), bert(2), layers)


def shared():
    """An ALBERT of one group starts from one of two."""
    student = models.student(SIZES, family="albert")
    sizes = {**student.get_config(), "num_groups": 2, "name": None}
    teacher = keras_hub.models.AlbertBackbone.from_config(sizes)
    models.initialize_from_teacher(student, teacher, [1, 2])


def tied_llama():
    """A copy of a Llama whose output weights are its embeddings."""
    backbone = models.student(SIZES, family="llama3")
    backbone.tie_word_embeddings = True
    return models.copy_blocks(backbone, (1,))


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


def of_probabilities():
    return keras_hub.models.BertTextClassifier(
        bare("bert"), num_classes=2, activation="softmax"
    )


def of_two_epsilons():
    """A Qwen 3 of keras-hub, whose queries and keys have their own."""
    config = models.student(SIZES, family="qwen3").get_config()
    return keras_hub.models.Qwen3Backbone.from_config(
        {**config, "layer_norm_epsilon": 0.1}
    )


def of_candidates():
    head = models.Head("tokens", 2, candidates={"good": (1,)})
    tokenizer = models.word_piece_tokenizer(WORDS, lowercase=True)
    return models.add_head(bare("bert"), head, tokenizer)


def config(sizes=SIZES, **changes):
    return lambda place: student_config(sizes, **changes)


def conventions(**settings):
    return lambda place: (
        models.find(written(place, CONVENTIONS, settings)).conventions
    )


def reads(load, *arguments, num_classes=2, **settings):
    """Loads a preset of a classifier, or of an encoder for no classes."""
    return lambda place: load(saved(place, num_classes, **settings), *arguments)


def vectors(**changes):
    return lambda place: set_vectors(**changes)


def word_pieces(size):
    return lambda place: models.train_word_pieces(TEXT, size)


def byte_pairs(size):
    return lambda place: models.train_byte_pairs(TEXT, size)


NAN = np.full((len(data.sentiment_vocabulary()), 4), np.nan)
MISTAKES = {
    # Sizes and layers.
    "student": (lambda place: models.student("tinybert"), "tinybert_4_layer"),
    "family": (config(family="t5"), "distil_bert"),
    "size of other families": (config(embedding_dim=4), "embedding_dim"),
    "no layers": (config(num_layers=0), "num_layers"),
    "no embeddings": (config(family="electra", embedding_dim=0),
        "embedding_dim .* above 0"),
    "heads": (config(num_heads=3), "divide"),
    "texts of a BiLSTM": (config(models.BilstmConfig(num_texts=3)), "1 or 2"),
    "layer 0": (lambda place: started([0, 1]), r"\[0, 1\]"),
    "too many layers": (lambda place: started([1, 2, 2]), "2 layers"),
    "shared layers": (lambda place: shared(), "shares"),
    "tied Llama": (lambda place: tied_llama(), "tied"),
    "family's name": (
        lambda place: models.register_family(
            type("B", (models.Family,), {"name": "bert"})
        ),
        "bert",
    ),
    # Heads and poolings.
    "kind of head": (lambda place: models.Head("span", 2), "multiple_choice"),
    "pooling": (lambda place: models.Pooling("last"), "mean"),
    "no pooling": (reads(models.load_embedder, num_classes=None), "pooling"),
    "pooling of a checkpoint": (
        reads(models.load_embedder, "lasttoken", num_classes=None),
        "lasttoken"),
    "components": (lambda place: principal_components(np.eye(3), 3),
        "3 vectors"),
    "components of NaN": (
        lambda place: principal_components(np.full((4, 2), np.nan), 1),
        "finite"),
    "similarity": (conventions(similarity_fn_name="hamming"), "hamming"),
    "default prompt": (conventions(default_prompt_name="x"),
        "default_prompt_name"),
    "reranker without a head": (reads(models.load_reranker, num_classes=None),
        "has_trained_head=False"),
    "reranker of three classes": (reads(models.load_reranker, num_classes=3),
        "3 classes"),
    # Static embedders.
    "SIF": (vectors(sif=0.0), "sif=0.0"),
    "vectors": (vectors(vectors=NAN), "finite"),
    "lengths": (vectors(lengths=np.array([3])), "3 tokens"),
    "special tokens alone": (vectors(token_ids=np.array([2, 3, 2, 3])),
        "no tokens"),
    # Vocabularies.
    "file of byte pairs": (lambda place: byte_pair_files("tokens.json"),
        "vocab.json"),
    "too few byte pairs": (byte_pairs(100), "vocabulary_size=100"),
    "too many byte pairs": (byte_pairs(9999), "vocabulary_size=9999"),
    "too few word pieces": (word_pieces(9), "vocabulary_size=9"),
    "too many word pieces": (word_pieces(5000), "vocabulary_size=5000"),
    # Pairs of tokenizers.
    "other words": (
        lambda place: models.require_same_ids(
            encoders.tokenizer("bert"),
            models.word_piece_tokenizer(WORDS, lowercase=True),
        ),
        "20 and 7",
    ),
    "other rules": (
        lambda place: models.require_same_ids(
            *(models.word_piece_tokenizer(WORDS, lower)
              for lower in (False, True))
        ),
        "another normalizer",
    ),
    "other special tokens": (
        lambda place: models.require_same_ids(
            *(models.Tokenizer(MADE.rust, {**MADE.tokens, "end": end})
              for end in ("[SEP]", "good"))
        ),
        "another tokens",
    ),
    # Presets and files.
    "no model": (lambda place: models.load_classifier(place, 2), "No model"),
    "no preset": (lambda place: models.load_encoder("bert_tiny"),
        "preset bert_tiny"),
    "no preset of an embedder": (
        lambda place: models.load_embedder("bert_tiny"), "preset bert_tiny"),
    "run without a model": (
        lambda place: models.load_encoder(
            written(saved(place), "metrics.jsonl", {})
        ),
        "No model",
    ),
    "classes": (reads(models.load_classifier, 3), "has 2"),
    "names of classes": (
        lambda place: models.load_classifier(
            written(saved(place), "labels.json", {"classes": ["x", "y"]}),
            models.Head("sequence", 2, ("y", "x")),
        ),
        r"\['y', 'x'\]",
    ),
    "checkpoint of another family": (
        lambda place: models.load_classifier(
            written(place, "config.json", {"model_type": "electra"}), 2
        ),
        "'electra'",
    ),
    # Hugging Face checkpoints.
    "family of no checkpoint": (checkpoint_of(lambda: bare("deberta_v3")),
        "RoBERTa"),
    "probabilities": (checkpoint_of(of_probabilities), "softmax"),
    "candidates": (checkpoint_of(of_candidates), "candidate"),
    "two epsilons": (checkpoint_of(of_two_epsilons), "layer_norm_epsilon"),
    "names of logits": (checkpoint_of(lambda: bert(1), ("a", "a", "b")),
        "3 different names"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_where_it_is_made(name, tmp_path):
    mistake, word = MISTAKES[name]
    with pytest.raises(ValueError, match=word):
        mistake(tmp_path)
