"""Static embedders: the mean of token vectors, their start, their files."""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tokenizers
from kit.helpers import large_except
from kit.references import reference
from numpy.testing import assert_allclose
from tokenizers import Tokenizer

from kdkit import data, export, models, tasks
from kdkit.models.static import is_static_embedder
from kdkit.taps import tapped

LENGTH, WIDTH = 8, 6
TEXTS = ["the plot is thin", "the hero is dull and fine", "thin", ""]


@pytest.fixture(scope="module")
def tokenizer():
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


@pytest.fixture(scope="module")
def embedder(tokenizer):
    keras.utils.set_random_seed(0)
    model = models.make_static_embedder(tokenizer, WIDTH)
    table = np.random.default_rng(0).normal(
        size=models.token_vectors(model).shape
    )
    models.set_token_vectors(model, table, tokenizer, sif=None)
    return model


def vectors(model, tokenizer, texts=TEXTS):
    return tasks.embed_texts(model, texts, tokenizer, LENGTH)


def unit(rows):
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(length == 0, 1, length)


def test_a_vector_is_the_mean_of_the_tokens_without_those_around(
    embedder, tokenizer
):
    table = models.token_vectors(embedder)
    ids = [np.array(row, int)[: LENGTH - 2] for row in tokenizer(TEXTS)]
    means = [table[row].mean(0) if len(row) else 0 * table[0] for row in ids]
    assert_allclose(
        vectors(embedder, tokenizer), unit(np.array(means)), atol=1e-6
    )


def test_it_is_an_embedder_with_one_tap(embedder):
    assert models.is_embedder(embedder)
    assert is_static_embedder(embedder)
    assert models.pooling_of(embedder) == models.Pooling("mean")
    assert models.num_positions(embedder) is None
    batch = {
        name: np.ones((2, 3), "int32")
        for name in ("token_ids", "padding_mask", "segment_ids")
    }
    found = tapped(embedder, ["sentence_embedding"])(batch)
    assert found["sentence_embedding"].shape == (2, WIDTH)
    with pytest.raises(ValueError, match="hidden_states"):
        tapped(embedder, ["hidden_states"])


def test_token_vectors_are_weighted_and_lose_the_common_component(tokenizer):
    """The oracle: SIF by Arora et al., 2017, algorithm 1."""
    texts, size = data.load_sentiment("train").texts[0][:40], 1e-2
    encoded = data.encode(data.Examples((texts,)), tokenizer, LENGTH)
    rows = [ids[1:-1] for ids, _ in encoded.contents()]
    generator = np.random.default_rng(1)
    given = generator.normal(size=(tokenizer.vocabulary_size(), WIDTH))
    counts = np.bincount(np.concatenate(rows), minlength=len(given))
    weighted = given * (size / (size + counts / counts.sum()))[:, None]
    means = np.array([weighted[ids].mean(axis=0) for ids in rows])
    _, _, directions = np.linalg.svd(means, full_matrices=False)
    common = directions[:1]
    expected = weighted - weighted @ common.T @ common
    model = models.make_static_embedder(tokenizer, WIDTH)
    models.set_token_vectors(
        model, given, tokenizer, encoded.token_ids, encoded.lengths, sif=size
    )
    assert_allclose(models.token_vectors(model), expected, atol=1e-5)


def test_a_saved_embedder_is_a_keras_file_and_a_tokenizer(
    embedder, tokenizer, tmp_path
):
    models.save_embedder(embedder, tokenizer, tmp_path, LENGTH)
    plain = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    expected = vectors(embedder, tokenizer)
    assert (vectors(plain, tokenizer) == expected).all()


@pytest.mark.parametrize("normalize", [True, False])
def test_sentence_transformers_returns_the_same_vectors(
    normalize, embedder, tokenizer, tmp_path
):
    foreign = reference("sentence_transformers")
    model = models.make_static_embedder(tokenizer, WIDTH, normalize)
    model.set_weights(embedder.get_weights())
    path = tmp_path / "foreign"
    report = export.to_sentence_transformers(model, path, tokenizer, LENGTH)
    assert report.smallest_cosine > 0.99999
    texts = [*TEXTS[:3], "the fine plot is thin and the hero is dull"]
    expected = foreign.SentenceTransformer(str(path), device="cpu").encode(
        texts, convert_to_numpy=True
    )
    assert_allclose(vectors(model, tokenizer, texts), expected, atol=1e-6)
    loaded = models.load_embedder(path)
    assert loaded.sequence_length == LENGTH - 2  # none around them any more
    assert models.pooling_of(loaded.model).normalize == normalize
    found = tasks.embed_texts(
        loaded.model, texts, loaded.tokenizer, loaded.sequence_length
    )
    assert_allclose(found, expected, atol=1e-6)


WORDS = ["[PAD]", "[UNK]", "Paris", "paris", "in", "May", "may", "US", "us",
         "\u00e9", "e", "x"]  # fmt: skip
CASED = ["Paris in May US \u00e9", "paris [UNK] [PAD]", "", "May x " * 90]


def word_pieces():
    made = Tokenizer(
        tokenizers.models.WordPiece(
            {word: number for number, word in enumerate(WORDS)},
            unk_token="[UNK]",
        )
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return made


def unigrams():
    """Pieces across words, as Metaspace without splitting has them."""
    pieces = ["<unk>", *WORDS[2:], "\u2581in\u2581May", "\u2581", "p"]
    made = Tokenizer(
        tokenizers.models.Unigram([(one, -1.0) for one in pieces], unk_id=0)
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=False)
    return made


def left_truncated():
    made = word_pieces()
    made.enable_truncation(3, direction="left")
    return made


@pytest.mark.parametrize("make", [word_pieces, unigrams, left_truncated])
def test_a_static_embedder_is_its_tokenizer_whole(make, tmp_path):
    """The oracle is `tokenizers`; the format is that of model2vec 0.10."""
    judge, path = make(), tmp_path / "place"
    rows = np.random.default_rng(0).normal(size=(4, WIDTH)).astype("float32")
    size = judge.get_vocab_size()
    mapping, scales = np.arange(size) % 4, np.linspace(0.5, 2, size)
    path.mkdir()
    judge.save(str(path / "tokenizer.json"))
    safetensors.numpy.save_file(
        {"embeddings": rows, "mapping": mapping, "weights": scales},
        path / "model.safetensors",
    )
    module = "sentence_transformers.models.{}"
    parts = [
        {"path": folder, "type": module.format(kind)}
        for kind, folder in (("StaticEmbedding", "."), ("Normalize", "1_N"))
    ]
    (path / "modules.json").write_text(json.dumps(parts))
    table = rows[mapping] * scales[:, None]
    ids = [judge.encode(one, add_special_tokens=False).ids for one in CASED]
    expected = unit(
        np.array([table[row].mean(0) if row else 0 * table[0] for row in ids])
    )
    loaded = models.load_embedder(path)
    length = loaded.sequence_length
    assert length == (3 if make is left_truncated else None)
    found = [(loaded, path)]
    for name, save in (
        ("st", models.save_sentence_transformer),
        ("saved", models.save_embedder),
    ):
        save(loaded.model, loaded.tokenizer, tmp_path / name, length)
        found.append((models.load_embedder(tmp_path / name), tmp_path / name))
    for one, place in found:
        assert one.sequence_length == length
        read = models.load_tokenizer(place)
        for reader in (one.tokenizer, read):
            vectors = tasks.embed_texts(one.model, CASED, reader, length)
            assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("precision", large_except(["fp32", "int8"], "int8"))
def test_litert_files_return_the_same_vectors(
    precision, embedder, tokenizer, tmp_path
):
    path = tmp_path / "file.tflite"
    report = export.to_litert(
        embedder,
        path,
        precision=precision,
        sequence_length=LENGTH,
        mediapipe=True,
        tokenizer=tokenizer,
    )
    assert report.smallest_cosine > 0.999
    found = vectors(export.open_file(path), tokenizer)
    assert_allclose(
        found,
        vectors(embedder, tokenizer),
        atol=1e-5 if precision == "fp32" else 0.05,
    )
