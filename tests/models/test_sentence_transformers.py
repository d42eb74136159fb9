"""Directories of sentence-transformers, against sentence-transformers."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from kit.encoders import SENTENCES, tokenizer
from kit.foreign import SPREAD, foreign_model, save_foreign
from kit.hugging_face import write_checkpoint
from kit.references import reference

from kdkit import models
from kdkit.data import Examples, encode
from kdkit.errors import UsageError

LENGTH = 9  # shorter than some texts
TEXTS = [*SENTENCES, "Good, Weak", "caf\u00e9 \U0001f602", "", " \n"]
PLACE = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
REAL_TEXTS = [
    "A man is playing a guitar.",
    "Un gar\u00e7on joue pr\u00e8s de la for\u00eat; die Stra\u00dfe.",
    "e\u0301crit, \ufb01nd \u201ccurly\u201d \u2013 \u20ac5 \u2026",
    "So funny \U0001f602\U0001f602 \U0001f44d\U0001f3fd",
    "\u6771\u4eac \u041f\u0440\u0438\u0432\u0435\u0442",
    "",
    " ",
    "\u200b",
    "x" * 300,
    "a long text about many things " * 60,
]


def write_json(file, value):
    file.write_text(json.dumps(value))


def our_vectors(loaded, texts, length=None):
    rows = encode(
        Examples((texts,), None),
        loaded.tokenizer,
        length or loaded.sequence_length,
    )
    batch = rows.inputs(np.arange(len(texts)), int(rows.lengths.max()))
    inputs = {name: batch[name] for name in loaded.model.input}
    return np.asarray(loaded.model(inputs)), rows


def theirs_of(path):
    """sentence-transformers' model in a directory."""
    with_references = reference("sentence_transformers")
    return with_references.SentenceTransformer(str(path), device="cpu")


def make_directory(
    path, family="bert", mode="mean", dense=0, normalize=True, pieces=None
):
    """Writes a directory by sentence-transformers; returns its model."""
    theirs = reference("sentence_transformers.sentence_transformer.modules")
    torch = reference("torch")
    encoder_path = path.parent / f"{path.name}_encoder"
    encoder_path.mkdir()
    pieces = pieces or family
    size = tokenizer(pieces).vocabulary_size()
    save_foreign(foreign_model(family, vocab_size=size), pieces, encoder_path)
    if pieces != family:
        settings = {"tokenizer_class": "XLMRobertaTokenizer"}
        write_json(encoder_path / "tokenizer_config.json", settings)
    transformer = theirs.Transformer(str(encoder_path), max_seq_length=LENGTH)
    modules = [transformer, theirs.Pooling(16, mode)]
    for number in range(dense):
        activation = (torch.nn.Tanh(), torch.nn.Identity())[number % 2]
        modules.append(
            theirs.Dense(
                modules[-1].get_embedding_dimension(),
                12 - number,
                bias=not number % 2,
                activation_function=activation,
            )
        )
        torch.nn.init.normal_(modules[-1].linear.weight, std=SPREAD)
    if normalize:
        modules.append(theirs.Normalize())
    made = reference("sentence_transformers").SentenceTransformer(
        modules=modules, device="cpu"
    )
    made.save_pretrained(str(path), create_model_card=False)
    return made


CASES = {
    "bert": {},
    "bert, cls": {"mode": "cls", "normalize": False},
    "bert, max, dense": {"mode": "max", "dense": 2},
    "bert, sentence pieces": {"pieces": "xlm_roberta", "normalize": False},
    "xlm_roberta": {"family": "xlm_roberta"},
    "distil_bert": {"family": "distil_bert", "mode": "max"},
    "roberta": {"family": "roberta", "mode": "cls", "dense": 1},
    "albert": {"family": "albert"},
}
FAST = ("bert, max, dense", "bert, sentence pieces", "roberta")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FAST else pytest.mark.large)
        for name in CASES
    ],
)
def test_vectors_are_those_of_sentence_transformers(name, tmp_path):
    theirs = make_directory(tmp_path / "place", **CASES[name])
    loaded = models.load_embedder(tmp_path / "place")
    assert loaded.sequence_length == LENGTH
    ours, rows = our_vectors(loaded, TEXTS)
    np.testing.assert_allclose(ours, theirs.encode(TEXTS), atol=1e-5)
    ids = theirs.tokenizer(TEXTS, truncation=True)["input_ids"]
    assert [len(row) for row in ids] == list(rows.lengths)
    assert sum(ids, []) == list(rows.token_ids)
    path = tmp_path / "written"
    models.save_sentence_transformer(
        loaded.model, loaded.tokenizer, path, LENGTH
    )
    written = theirs_of(path)
    np.testing.assert_allclose(written.encode(TEXTS), ours, atol=1e-5)
    again, _ = our_vectors(models.load_embedder(path), TEXTS)
    np.testing.assert_allclose(again, ours, atol=1e-6)
    models.save_embedder(
        loaded.model, loaded.tokenizer, tmp_path / "own", LENGTH
    )
    own, again = our_vectors(models.load_embedder(tmp_path / "own"), TEXTS)
    np.testing.assert_allclose(own, ours, atol=1e-6)
    assert list(again.token_ids) == list(rows.token_ids)


@pytest.mark.large
def test_minilm_s_vectors_are_those_of_sentence_transformers(tmp_path):
    path = pathlib.Path(PLACE).expanduser()
    if not path.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {path}: set MINILM to its folder")
    copy = tmp_path / "minilm"
    shutil.copytree(path, copy)
    pooling = {
        "word_embedding_dimension": 384,
        "pooling_mode_mean_tokens": True,
    }
    if not (copy / "1_Pooling").is_dir():
        with pytest.raises(UsageError, match="does not describe its pooling"):
            models.load_embedder(path)
        (copy / "1_Pooling").mkdir()
        write_json(copy / "1_Pooling" / "config.json", pooling)
    theirs = theirs_of(copy)
    loaded = models.load_embedder(path, "mean")
    assert models.pooling_of(loaded.model) == models.Pooling("mean")
    assert loaded.sequence_length == theirs.max_seq_length
    ours, rows = our_vectors(loaded, REAL_TEXTS)
    ids = theirs.tokenizer(
        REAL_TEXTS, truncation=True, max_length=theirs.max_seq_length
    )["input_ids"]
    assert sum(ids, []) == list(rows.token_ids)
    expected = theirs.encode(REAL_TEXTS)
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert models.load_embedder(copy).sequence_length == loaded.sequence_length


def plain_directory(path, **changes):
    """A directory written by hand, with changes to its files."""
    path.mkdir()
    write_checkpoint(path, "bert")
    transformer = {"idx": 0, "path": "", "type": MODULE.format("Transformer")}
    folders = {"Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"path": folder, "type": MODULE.format(kind)}
        for kind, folder in folders.items()
    ]
    files = {
        "modules.json": [transformer, *modules],
        "sentence_bert_config.json": {"max_seq_length": LENGTH},
        "1_Pooling/config.json": {
            "word_embedding_dimension": 8,
            "pooling_mode_cls_token": True,
        },
    }
    for name, value in {**files, **changes}.items():
        if value is not None:
            (path / name).parent.mkdir(exist_ok=True)
            write_json(path / name, value)
    return path


MODULE = "sentence_transformers.models.{}"


def of_modules(*kinds):
    modules = [{"path": "", "type": MODULE.format("Transformer")}]
    modules += [
        {"path": f"{number}_{kind}", "type": MODULE.format(kind)}
        for number, kind in enumerate(kinds, start=1)
    ]
    return {"modules.json": modules}


def of_pooling(**fields):
    return {"1_Pooling/config.json": fields}


def of_dense(**fields):
    config = {"in_features": 8, "out_features": 4, **fields}
    modules = of_modules("Pooling", "Dense")
    return {**modules, "2_Dense/config.json": config}


REFUSED = {
    "an LSTM": (of_modules("LSTM"), "LSTM"),
    "own code": (
        {"modules.json": [{"path": "", "type": "custom_st.Transformer"}]},
        "custom_st.Transformer",
    ),
    "no pooling": (of_modules("Normalize"), "does not describe its pooling"),
    "joined poolings of earlier versions": (
        of_pooling(pooling_mode_cls_token=True, pooling_mode_max_tokens=True),
        "'cls.max'",
    ),
    "another pooling": (
        of_pooling(pooling_mode_mean_sqrt_len_tokens=True),
        "mean_sqrt_len_tokens",
    ),
    "prompts that are not pooled": (
        of_pooling(pooling_mode="mean", include_prompt=False),
        "include_prompt=False",
    ),
    "modules in another order": (
        of_modules("Normalize", "Pooling"),
        "Transformer, Normalize, Pooling",
    ),
    "a residual": (of_dense(use_residual=True), "use_residual=True"),
    "another activation": (
        of_dense(activation_function="torch.nn.modules.activation.ReLU"),
        "ReLU",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_kdkit_does_not_compute_is_refused_by_name(name, tmp_path):
    changes, message = REFUSED[name]
    path = plain_directory(tmp_path / "place", **changes)
    with pytest.raises(UsageError, match=message):
        models.load_embedder(path)


def test_a_given_pooling_replaces_a_missing_one_only(tmp_path):
    missing = {"1_Pooling/config.json": None}
    path = plain_directory(tmp_path / "missing", **missing)
    loaded = models.load_embedder(path, "max")
    assert models.pooling_of(loaded.model) == models.Pooling("max")
    plain = of_modules("Pooling")
    path = plain_directory(tmp_path / "plain", **missing, **plain)
    loaded = models.load_embedder(path, "max")
    assert models.pooling_of(loaded.model) == models.Pooling("max", False)
    path = plain_directory(tmp_path / "there")
    with pytest.raises(UsageError, match="another pooling"):
        models.load_embedder(path, "mean")


SETTINGS = "config_sentence_transformers.json"


def test_prompts_and_similarity_are_followed_and_written(tmp_path):
    settings = {
        "prompts": {"query": "q: ", "document": "", "passage": "p: "},
        "default_prompt_name": None,
        "similarity_fn_name": "dot",
    }
    path = plain_directory(tmp_path / "place", **{SETTINGS: settings})
    loaded = models.load_embedder(path)
    own = loaded.conventions
    prompts = [*map(own.prompt, ("query", "document", None))]
    assert (prompts, own.similarity) == (["q: ", "p: ", ""], "dot")
    assert own.training_prompts == ("q: ", "p: ")
    arguments = (loaded.model, loaded.tokenizer)
    models.save_embedder(*arguments, tmp_path / "saved", LENGTH, own)
    models.save_sentence_transformer(*arguments, tmp_path / "st", LENGTH, own)
    for place in ("saved", "st"):
        assert models.load_embedder(tmp_path / place).conventions == own
        written = json.loads((tmp_path / place / SETTINGS).read_text())
        assert written == settings


def test_a_cross_encoder_is_no_embedder(tmp_path):
    """sentence-transformers 6 saves both with modules.json."""
    path = plain_directory(tmp_path / "place", **CROSS_ENCODER)
    assert not models.has_embedder(path)
    with pytest.raises(UsageError, match="embeds none"):
        models.load_embedder(path, "mean")


CROSS_ENCODER = {
    "modules.json": [{"path": "", "type": MODULE.format("Transformer")}],
    "sentence_bert_config.json": {
        "transformer_task": "sequence-classification"
    },
    SETTINGS: {"model_type": "CrossEncoder", "prompts": {}},
    "config.json": {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
    },
}


def test_texts_are_lower_cased_if_the_transformer_does(tmp_path):
    config = {"max_seq_length": None, "do_lower_case": True}
    path = plain_directory(
        tmp_path / "place",
        **{
            "sentence_bert_config.json": config,
            "tokenizer_config.json": {"do_lower_case": False},
        },
    )
    loaded = models.load_embedder(path)
    ids = [list(row) for row in loaded.tokenizer(["A plot", "a plot"])]
    assert ids[0] == ids[1]
    assert loaded.sequence_length == 12  # the encoder's positions
