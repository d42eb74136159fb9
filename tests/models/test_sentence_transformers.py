"""Directories of sentence-transformers, against sentence-transformers."""

import json

import numpy as np
import pytest
from kit.encoders import SENTENCES, tokenizer
from kit.foreign import POSITIONS, SPREAD, WIDTH, foreign_model, save_foreign
from kit.helpers import large_except
from kit.hugging_face import write_checkpoint
from kit.references import reference

from kdkit import models
from kdkit.data import Examples, encode

LENGTH = 9  # shorter than some texts
TEXTS = [*SENTENCES, "Good, Weak", "caf\u00e9 \U0001f602", "", " \n"]


def write_json(file, value):
    file.write_text(json.dumps(value))


def our_vectors(loaded, texts):
    rows = encode(
        Examples((texts,), None), loaded.tokenizer, loaded.sequence_length
    )
    batch = rows.inputs(np.arange(len(texts)), int(rows.lengths.max()))
    inputs = {name: batch[name] for name in loaded.model.input}
    return np.asarray(loaded.model(inputs)), rows


def sentence_transformer(*path, **arguments):
    cls = reference("sentence_transformers").SentenceTransformer
    return cls(*map(str, path), device="cpu", **arguments)


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
    modules = [transformer, theirs.Pooling(WIDTH, mode)]
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
    made = sentence_transformer(modules=modules)
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


@pytest.mark.parametrize(
    "name",
    large_except(CASES, "bert, max, dense", "roberta"),
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
    arguments = (loaded.model, loaded.tokenizer)
    for save in (models.save_sentence_transformer, models.save_embedder):
        path = tmp_path / save.__name__
        save(*arguments, path, LENGTH)
        found, again = our_vectors(models.load_embedder(path), TEXTS)
        np.testing.assert_allclose(found, ours, atol=1e-6)
        assert list(again.token_ids) == list(rows.token_ids)
    written = sentence_transformer(tmp_path / "save_sentence_transformer")
    np.testing.assert_allclose(written.encode(TEXTS), ours, atol=1e-5)


MODULE = "sentence_transformers.models.{}"
SETTINGS = "config_sentence_transformers.json"


def of_modules(*kinds):
    """The list of modules: a Transformer and others in folders."""
    modules = [{"path": "", "type": MODULE.format("Transformer")}]
    modules += [
        {"path": f"{number}_{kind}", "type": MODULE.format(kind)}
        for number, kind in enumerate(kinds, start=1)
    ]
    return {"modules.json": modules}


def of_pooling(**fields):
    return {"1_Pooling/config.json": fields}


def of_dense(**fields):
    config = {"in_features": WIDTH, "out_features": 4, **fields}
    return {
        **of_modules("Pooling", "Dense"),
        "2_Dense/config.json": config,
    }


def plain_directory(path, **changes):
    """A directory written by hand, with changes to its files."""
    path.mkdir()
    write_checkpoint(path, "bert")
    files = {
        **of_modules("Pooling", "Normalize"),
        **of_pooling(
            word_embedding_dimension=WIDTH, pooling_mode_cls_token=True
        ),
        "sentence_bert_config.json": {"max_seq_length": LENGTH},
    }
    for name, value in {**files, **changes}.items():
        if value is not None:
            (path / name).parent.mkdir(exist_ok=True)
            write_json(path / name, value)
    return path


REFUSED = {
    "an LSTM": (of_modules("LSTM"), "LSTM"),
    "own code": (
        {"modules.json": [{"path": "", "type": "custom_st.Transformer"}]},
        "custom_st.Transformer"),
    "no pooling": (of_modules("Normalize"), "pooling"),
    "joined poolings of earlier versions": (
        of_pooling(pooling_mode_cls_token=True, pooling_mode_max_tokens=True),
        "cls.max"),
    "another pooling": (of_pooling(pooling_mode_mean_sqrt_len_tokens=True),
        "mean_sqrt_len_tokens"),
    "prompts that are not pooled": (
        of_pooling(pooling_mode="mean", include_prompt=False),
        "include_prompt"),
    "modules in another order": (of_modules("Normalize", "Pooling"),
        "Transformer, Normalize, Pooling"),
    "a residual": (of_dense(use_residual=True), "use_residual"),
    "another activation": (
        of_dense(activation_function="torch.nn.modules.activation.ReLU"),
        "ReLU"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_kdkit_does_not_compute_is_refused_by_name(name, tmp_path):
    changes, message = REFUSED[name]
    path = plain_directory(tmp_path / "place", **changes)
    with pytest.raises(ValueError, match=message):
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
    with pytest.raises(ValueError, match="another pooling"):
        models.load_embedder(path, "mean")


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


def test_a_cross_encoder_is_no_embedder(tmp_path):
    """sentence-transformers 6 saves both with modules.json."""
    path = plain_directory(tmp_path / "place", **CROSS_ENCODER)
    assert models.find(path).kind != "embedder"
    with pytest.raises(ValueError, match="embeds none"):
        models.load_embedder(path, "mean")


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
    assert loaded.sequence_length == POSITIONS
