"""Exported Hugging Face checkpoints, with transformers as the judge."""

import json
import os
import pathlib

import keras_hub
import numpy as np
import pytest
import safetensors.numpy
from kit.encoders import encoder, tokenizer
from kit.helpers import decoder, large_except, with_random_weights
from kit.hugging_face import add_head, write_checkpoint
from kit.real_texts import DATA_SETS, hostile_texts, real_texts
from kit.references import reference

from kdkit import data, export, models
from kdkit.errors import UsageError
from kdkit.export.inputs import INPUT_NAMES
from kdkit.models import Head, variants
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.saving import SAMPLES
from kdkit.models.text_rules import TextRules, bert_rules

PLACE = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
FAMILIES = ("bert", "distil_bert", "roberta", "xlm_roberta", "albert")
NAMES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def torch():
    return reference("torch")


def inputs(model, seed=0):
    """Rows of unequal lengths, with the model's inputs."""
    rng = np.random.default_rng(seed)
    real = np.arange(9) < np.array([[9], [3], [6]])
    tokens = rng.integers(5, 20, real.shape)
    batch = {
        "token_ids": np.where(real, tokens, 0),
        "segment_ids": (np.arange(9) > 4) & real,
        "padding_mask": real,
    }
    return {name: batch[name].astype("int32") for name in model.input}


def judged(torch, model, batch):
    """The logits that transformers computes, float32."""
    names = {
        "token_ids": "input_ids",
        "segment_ids": "token_type_ids",
        "padding_mask": "attention_mask",
    }
    read = {names[name]: torch.tensor(one) for name, one in batch.items()}
    if "padding_mask" in batch:
        pad = model.config.pad_token_id or 0
        mask = read["attention_mask"] == 0
        read["input_ids"] = read["input_ids"].masked_fill(mask, pad).long()
    with torch.no_grad():
        return model.eval()(**read).logits.numpy()


def loaded(folder, name):
    """The model in transformers; all its tensors are in the files."""
    made, found = getattr(reference("transformers"), name).from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(found.values()), found
    return made


def check_same(torch, model, folder, name, real_only=False):
    batch = inputs(model)
    expected = np.asarray(model(batch, training=False))
    received = judged(torch, loaded(folder, name), batch)
    if real_only:
        real = batch["padding_mask"].astype(bool)
        expected, received = expected[real], received[real]
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_classifier_has_the_same_logits_in_transformers(
    family, torch, tmp_path
):
    model = encoder(family, vocabulary_size=30)
    report = export.export_model(
        model, tmp_path / "hf", "hf", class_names=NAMES
    )
    assert report.max_abs_difference == 0
    name = "AutoModelForSequenceClassification"
    check_same(torch, model, tmp_path / "hf", name)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "fair", "2": "good"}
    assert config["problem_type"] == "single_label_classification"


@pytest.mark.parametrize("family", ["bert", "distil_bert", "roberta"])
def test_tagger_has_the_same_logits_in_transformers(family, torch, tmp_path):
    backbone = encoder(family, num_classes=None, vocabulary_size=30)
    model = with_random_weights(
        models.add_head(backbone, Head("tokens", 3)), scale=0.2
    )
    export.export_model(model, tmp_path / "hf", "hf", class_names=NAMES)
    name = "AutoModelForTokenClassification"
    check_same(torch, model, tmp_path / "hf", name, real_only=True)


@pytest.mark.parametrize("family", large_except(["bert", "albert"], "bert"))
def test_multiple_choice_has_the_same_logits_in_transformers(
    family, torch, tmp_path
):
    backbone = encoder(family, num_classes=None, vocabulary_size=30)
    tokens = ruled(tokenizer(family))
    head = Head("multiple_choice", 3)
    model = with_random_weights(models.add_head(backbone, head), scale=0.2)
    export.export_model(model, tmp_path / "hf", "hf", tokenizer=tokens)
    batch = inputs(model)
    expected = np.asarray(model(batch, training=False))
    question = {name: rows[np.newaxis] for name, rows in batch.items()}
    made = loaded(tmp_path / "hf", "AutoModelForMultipleChoice")
    received = judged(torch, made, question)
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)
    again = models.load_classifier(tmp_path / "hf", head)
    assert again.has_trained_head
    np.testing.assert_allclose(again.model(batch), expected, atol=1e-6)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_decoder_has_the_same_logits_in_transformers(
    activation, torch, tmp_path
):
    model = decoder(2, vocabulary_size=30)
    model = variants.with_settings(model, {"activation": activation})
    export.export_model(model, tmp_path / "hf", "hf")
    name = "AutoModelForCausalLM"
    check_same(torch, model, tmp_path / "hf", name, real_only=True)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["activation_function"] == activation


def test_own_activation_and_epsilon_are_in_the_config(torch, tmp_path):
    settings = {"activation": "gelu", "layer_norm_epsilon": 1e-5}
    model = variants.with_settings(encoder("bert"), settings)
    export.export_model(model, tmp_path / "hf", "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["hidden_act"], config["layer_norm_eps"]) == ("gelu", 1e-5)
    check_same(
        torch, model, tmp_path / "hf", "AutoModelForSequenceClassification"
    )
    model = variants.with_settings(
        encoder("distil_bert"), {"layer_norm_epsilon": 1e-5}
    )
    with pytest.raises(UsageError, match="layer_norm_epsilon .*1e-05"):
        export.export_model(model, tmp_path / "other", "hf")


@pytest.mark.parametrize("num_classes", large_except([1, 3], 3))
@pytest.mark.parametrize("family", ["bert", "distil_bert", "roberta"])
def test_checkpoint_read_and_written_has_the_same_tensors(
    family, num_classes, tmp_path
):
    given, written = tmp_path / "given", tmp_path / "written"
    given.mkdir()
    write_checkpoint(given, family)
    add_head(given, family, num_classes)
    model = models.load_classifier(given, num_classes)
    assert model.has_trained_head
    export.export_model(model.model, written, "hf", tokenizer=model.tokenizer)
    files = [folder / "model.safetensors" for folder in (given, written)]
    old, new = map(safetensors.numpy.load_file, files)
    if family == "distil_bert":  # which has no segments
        del old["distilbert.embeddings.token_type_embeddings.weight"]
    if family == "roberta":  # kdkit adds the only segment to the positions
        name = "roberta.embeddings.{}_embeddings.weight"
        segment = old.pop(name.format("token_type"))[0]
        assert not new.pop(name.format("token_type")).any()
        old[name.format("position")][2:] += segment
        old[name.format("position")][:2] = 0  # of padding
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        np.testing.assert_array_equal(new[name], tensor, err_msg=name)
    again = models.load_classifier(written, num_classes)
    texts = ["a dull plot", "the cast is good"]
    for one, other in zip(
        model.tokenizer(texts), again.tokenizer(texts), strict=True
    ):
        assert list(one) == list(other)


TEXTS = [
    "A dull plot, the cast",
    "the the superb Ende",
    "",
    " Café ½ ﬁn  日本 ",
]


@pytest.mark.parametrize("family", [*FAMILIES, "gpt2"])
def test_tokenizer_has_the_same_ids_in_transformers(family, tmp_path):
    if family == "gpt2":
        model, tokens = decoder(1), ruled(gpt2_tokenizer())
    else:
        model, tokens = encoder(family), ruled(tokenizer(family))
    export.export_model(model, tmp_path / "hf", "hf", tokenizer=tokens)
    auto = reference("transformers").AutoTokenizer.from_pretrained(
        tmp_path / "hf"
    )
    ours = [[int(one) for one in ids] for ids in tokens(TEXTS)]
    read = auto(TEXTS, add_special_tokens=False)["input_ids"]
    assert read == ours
    assert ("token_type_ids" in auto("a")) == (family in ("bert", "albert"))
    if family == "gpt2":
        assert auto(TEXTS[0])["input_ids"] == ours[0]
        return
    pair = auto("the plot", "a cast")["input_ids"]
    examples = data.Examples((["the plot"], ["a cast"]))
    ((expected, _),) = data.encode(examples, tokens, 30).contents()
    assert pair == list(expected)
    again = models.load_tokenizer(tmp_path / "hf")
    assert [list(ids) for ids in again(TEXTS)] == ours


def ruled(tokens):
    is_words = isinstance(tokens, keras_hub.tokenizers.WordPieceTokenizer)
    return with_rules(tokens, bert_rules(True) if is_words else TextRules())


@pytest.mark.parametrize("family", ["xlm_roberta", "albert"])
def test_keras_hubs_own_unigrams_are_refused(family, tmp_path):
    model, tokens = encoder(family), tokenizer(family)
    with pytest.raises(UsageError, match="unigrams from a Hugging Face check"):
        export.export_model(model, tmp_path / "hf", "hf", tokenizer=tokens)
    assert not list(tmp_path.iterdir())


def test_other_ids_of_keras_hubs_own_tokenizer_are_a_warning(tmp_path):
    model = encoder("bert")
    with pytest.raises(UserWarning, match="keras-hub's own BertTokenizer"):
        export.export_model(
            model, tmp_path / "hf", "hf", tokenizer=tokenizer("bert")
        )


def gpt2_tokenizer():
    letters = [*"adehlopstuErb,AT", "Ġ", "<|endoftext|>"]
    merges = ["Ġ t", "h e"]
    pieces = [*letters, "Ġt", "he"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return keras_hub.tokenizers.GPT2Tokenizer(
        vocabulary=vocabulary, merges=merges
    )


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
    texts = [
        text
        for name in DATA_SETS
        for text in real_texts(data_dir, name, number)
    ]
    texts += hostile_texts()
    expected = auto(texts, add_special_tokens=False)["input_ids"]
    for text, theirs, ours in zip(texts, expected, tokens(texts), strict=True):
        assert [int(one) for one in ours] == theirs, text


@pytest.mark.large
def test_real_encoder_has_the_same_logits_and_ids(torch, tmp_path):
    place = pathlib.Path(PLACE).expanduser()
    if not place.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {place}: set MINILM to its folder")
    found = models.load_classifier(place, 2)
    path = tmp_path / "hf"
    export.export_model(found.model, path, "hf", tokenizer=found.tokenizer)
    auto = reference("transformers").AutoTokenizer.from_pretrained(path)
    read = auto(list(SAMPLES), padding=True, return_tensors="pt")
    assert [ids[1:-1] for ids in auto(list(SAMPLES))["input_ids"]] == [
        list(map(int, ids)) for ids in found.tokenizer(list(SAMPLES))
    ]
    model = loaded(path, "AutoModelForSequenceClassification").eval()
    with torch.no_grad():
        received = model(**read).logits.numpy()
    names = ("input_ids", "token_type_ids", "attention_mask")
    ours = dict(zip(INPUT_NAMES, (read[name] for name in names), strict=True))
    ours = {name: one.numpy().astype("int32") for name, one in ours.items()}
    expected = np.asarray(found.model(ours, training=False))
    np.testing.assert_allclose(received, expected, atol=1e-5, rtol=1e-5)
