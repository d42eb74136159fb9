"""Checkpoint directories of Hugging Face, and changes to their files."""

import json

import safetensors.numpy

from kit.foreign import foreign_model, save_foreign, write_tokenizer

ABSENT = object()
__all__ = [
    "ABSENT",
    "add_head",
    "change_config",
    "change_tensors",
    "write_checkpoint",
    "write_tokenizer",
]


def write_checkpoint(path, family, head="Model"):
    """Saves a tiny encoder and its tokenizer; returns the encoder."""
    model = foreign_model(family, head)
    save_foreign(model, family, path)
    return model


def add_head(path, family, num_classes=3, **config):
    """Makes it a checkpoint with a classifier; returns the head's tensors."""
    model = foreign_model(
        family, "ForSequenceClassification", num_labels=num_classes
    )
    model.save_pretrained(path)
    change_config(path, **config)
    if family == "distil_bert":  # a table of old files that nothing reads
        name = "distilbert.embeddings.token_type_embeddings.weight"
        table = model.distilbert.embeddings.word_embeddings.weight[:2]
        change_tensors(
            path, lambda tensors: {**tensors, name: table.detach().numpy()}
        )
    return {
        name: tensor.numpy()
        for name, tensor in model.state_dict().items()
        if "classifier" in name
    }


def change_config(path, **changes):
    """Sets fields of `config.json`; removes those that are `ABSENT`."""
    file = path / "config.json"
    config = json.loads(file.read_text()) | changes
    config = {
        name: value for name, value in config.items() if value is not ABSENT
    }
    file.write_text(json.dumps(config))


def change_tensors(path, change):
    """Writes the tensors that a function makes of those in the file."""
    file = path / "model.safetensors"
    tensors = {
        name: value.copy()
        for name, value in safetensors.numpy.load_file(file).items()
    }
    safetensors.numpy.save_file(
        change(tensors), file, metadata={"format": "pt"}
    )
