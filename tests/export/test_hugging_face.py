"""Hugging Face checkpoints, written and judged by transformers."""

import functools
import json

import numpy as np
import pytest
import safetensors.numpy
from kit.encoders import WORD_PIECES, encoder
from kit.exported import INPUTS, encoded
from kit.helpers import large_except, with_random_weights
from kit.hugging_face import add_head, write_checkpoint
from kit.real_texts import DATA_SETS, hostile_texts, real_texts
from kit.references import reference

from kdkit import export, models

NAMES = ("bad", "fair", "good")
THEIRS = ("input_ids", "token_type_ids", "attention_mask")
TEXTS = [
    "A dull plot, the cast",
    "the the superb Ende",
    "",
    " Café ½ ﬁn  日本 ",
]
# What a config may say otherwise than transformers' defaults.
SETTINGS = {"bert": {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5}}


def write_gpt2(path, activation):
    """Writes transformers' own GPT-2, with tokens that it splits texts into."""
    torch, transformers = reference("torch"), reference("transformers")
    letters = [*"adehlopstuErb,AT", "Ġ", "<|endoftext|>", "Ġt", "he"]
    vocabulary = {piece: number for number, piece in enumerate(letters)}
    (path / "vocab.json").write_text(json.dumps(vocabulary))
    (path / "merges.txt").write_text("#version: 0.2\nĠ t\nh e\n")
    config = transformers.GPT2Config(
        **{"vocab_size": len(letters), "n_positions": 12, "n_embd": 8},
        **{"n_layer": 2, "n_head": 2, "activation_function": activation},
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.5)
    model.save_pretrained(path)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """For a family: a checkpoint, the model read, the checkpoint written."""

    @functools.cache
    def made(family):
        given, written = (tmp_path_factory.mktemp(family) / n for n in "rw")
        given.mkdir()
        if family in DECODERS:
            if family == "qwen3":
                write_checkpoint(given, family, "ForCausalLM")
            else:
                write_gpt2(given, family)
            loaded, names = models.load_language_model(given), None
        else:
            write_checkpoint(given, family)
            add_head(given, family, 3, **SETTINGS.get(family, {}))
            loaded, names = models.load_classifier(given, 3), NAMES
            assert loaded.has_trained_head
        report = export.to_hugging_face(
            loaded.model, written, loaded.tokenizer, names
        )
        assert report.max_abs_difference == 0
        return given, loaded, written

    return made


QUICK = ("bert", "distil_bert", "roberta", "albert", "gelu_new", "qwen3")
DECODERS = ("gelu", "gelu_new", "qwen3")
every_family = pytest.mark.parametrize(
    "family", large_except([*QUICK, "gelu", "xlm_roberta"], *QUICK)
)


def check_logits(folder, kind, model):
    """transformers finds all its tensors in the files, and has our logits."""
    auto = getattr(reference("transformers"), f"AutoModelFor{kind}")
    made, found = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(found.values()), found
    real = np.arange(9) < np.array([[9], [3], [6]])
    batch = {
        "token_ids": np.random.default_rng(0).integers(5, 18, real.shape),
        "segment_ids": (np.arange(9) > 4) & real,
        "padding_mask": real,
    }
    batch["token_ids"][~real] = made.config.pad_token_id or 0
    batch = {name: batch[name].astype("int32") for name in model.input}
    names = dict(zip(INPUTS, THEIRS, strict=True))
    torch = reference("torch")
    read = {names[name]: torch.tensor(ids) for name, ids in batch.items()}
    if kind == "MultipleChoice":
        read = {name: ids[None] for name, ids in read.items()}
    with torch.no_grad():
        received = made.eval()(**read).logits.numpy()
    expected = np.asarray(model(batch, training=False))
    if expected.ndim == 3:
        received, expected = received[real], expected[real]
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)


@every_family
def test_a_model_has_the_same_logits_in_transformers(family, checkpoints):
    _, loaded, written = checkpoints(family)
    config = json.loads((written / "config.json").read_text())
    if family in DECODERS:
        assert config.get("activation_function", family) == family
        check_logits(written, "CausalLM", loaded.model)
        return
    assert config["id2label"] == dict(zip("012", NAMES, strict=True))
    assert config["problem_type"] == "single_label_classification"
    assert config == config | SETTINGS.get(family, {})
    check_logits(written, "SequenceClassification", loaded.model)


@every_family
def test_a_checkpoint_read_and_written_has_the_same_tensors(
    family, checkpoints
):
    given, _, written = checkpoints(family)
    old, new = (
        safetensors.numpy.load_file(folder / "model.safetensors")
        for folder in (given, written)
    )
    if family == "distil_bert":  # which has no segments
        del old["distilbert.embeddings.token_type_embeddings.weight"]
    if "roberta" in family:  # kdkit adds the only segment to the positions
        name = "roberta.embeddings.{}_embeddings.weight"
        segment = old.pop(name.format("token_type"))[0]
        assert not new.pop(name.format("token_type")).any()
        old[name.format("position")][2:] += segment
        old[name.format("position")][:2] = 0  # of padding
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        np.testing.assert_array_equal(new[name], tensor, err_msg=name)


@every_family
def test_a_tokenizer_has_the_same_ids_in_transformers(family, checkpoints):
    _, loaded, written = checkpoints(family)
    auto = reference("transformers").AutoTokenizer.from_pretrained(written)
    ours = [[int(one) for one in ids] for ids in loaded.tokenizer(TEXTS)]
    assert auto(TEXTS, add_special_tokens=False)["input_ids"] == ours
    assert ("token_type_ids" in auto("a")) == (family in ("bert", "albert"))
    if family in DECODERS:
        assert auto(TEXTS[0])["input_ids"] == ours[0]
        return
    pair = auto("the plot", "a cast")["input_ids"]
    batch = encoded(["the plot"], ["a cast"], tokenizer=loaded.tokenizer)
    assert pair == list(batch["token_ids"][0][: batch["padding_mask"].sum()])
    again = models.load_tokenizer(written)
    assert [list(ids) for ids in again(TEXTS)] == ours


HEADS = [
    *(("tokens", family) for family in ("bert", "distil_bert", "roberta")),
    *(("multiple_choice", family) for family in ("bert", "albert")),
]


@pytest.mark.parametrize(
    ("kind", "family"), large_except(HEADS, HEADS[0], HEADS[3])
)
def test_other_heads_have_the_same_logits(kind, family, tmp_path):
    head, path = models.Head(kind, 3), tmp_path / "hf"
    backbone = encoder(family, num_classes=None, vocabulary_size=30)
    model = with_random_weights(models.add_head(backbone, head), scale=0.2)
    pieces = models.word_piece_tokenizer(WORD_PIECES, True)
    is_bert = family == "bert"
    export.to_hugging_face(model, path, pieces if is_bert else None)
    is_choice = kind == "multiple_choice"
    name = "MultipleChoice" if is_choice else "TokenClassification"
    check_logits(path, name, model)
    if is_bert and is_choice:
        again = models.load_classifier(path, head)
        assert again.has_trained_head
        weights = model.get_weights(), again.model.get_weights()
        for one, other in zip(*weights, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "number", [100, pytest.param(2000, marks=pytest.mark.large)]
)
def test_ids_of_real_texts_are_the_same(number, data_dir, tmp_path):
    tokens = models.load_tokenizer(
        data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    )
    model = encoder("bert", vocabulary_size=tokens.vocabulary_size())
    export.export_model(model, tmp_path / "hf", "hf", tokenizer=tokens)
    auto = reference("transformers").AutoTokenizer.from_pretrained(
        tmp_path / "hf"
    )
    texts = hostile_texts() + [
        text
        for name in DATA_SETS
        for text in real_texts(data_dir, name, number)
    ]
    expected = auto(texts, add_special_tokens=False)["input_ids"]
    for text, theirs, ours in zip(texts, expected, tokens(texts), strict=True):
        assert [int(one) for one in ours] == theirs, text
