"""`kdkit augment --parity tinybert`: the authors' reading of nearest words."""

import keras_hub
import pytest
from kit.helpers import spread_weights

from kdkit import models
from kdkit.augmentation import Augmentation
from kdkit.runs.augmenting import augment
from kdkit.training.data_settings import AugmentSettings

PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "it", "film", "plot",
    "grip", "##ping", "thrill", "##ing",
]  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """One text of a word that has several pieces, and its vectors."""
    folder = tmp_path_factory.mktemp("augment")
    (folder / "SST-2").mkdir()
    for split in ("train", "dev"):
        (folder / "SST-2" / f"{split}.tsv").write_text(
            "sentence\tlabel\nit is gripping\t1\nthe the the\t0\n"
        )
    (folder / "vectors.txt").write_text(
        "gripping 1 0\nthrilling 0.9 0.1\nplot -1 0\nfilm 0 1\n"
    )
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    encoder = models.student(
        {
            "num_layers": 1,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 16,
            "vocabulary_size": len(PIECES),
            "max_sequence_length": 16,
        }
    )
    language_model = models.language_model(encoder)
    spread_weights(language_model)
    models.save_language_model(language_model, tokenizer, folder / "model", 16)
    return AugmentSettings(
        task="sst2",
        data_dir=str(folder),
        model=str(folder / "model"),
        word_vectors=str(folder / "vectors.txt"),
        augmentation=Augmentation(1, probability=1.0, num_candidates=1),
        parity="tinybert",
    )


def test_the_nearest_word_of_the_authors_code_is_another(settings, tmp_path):
    augment(settings, tmp_path / "copies.tsv")
    lines = (tmp_path / "copies.tsv").read_text().splitlines()
    assert [line.split("\t")[-1] for line in lines[1:]] == ["it is thrilling"]
