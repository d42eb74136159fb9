"""Teachers from presets, Hugging Face directories, files and runs."""

import keras_hub
import numpy as np

from kdkit.models import (
    load_classifier,
    student,
)

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
BATCH = {
    "token_ids": np.array([[2, 5, 6, 3]], "int32"),
    "segment_ids": np.zeros((1, 4), "int32"),
    "padding_mask": np.ones((1, 4), "int32"),
}


def make_classifier():
    return student(
        {
            "num_layers": 2,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 16,
            "vocabulary_size": len(VOCABULARY),
            "max_sequence_length": 12,
        },
        num_classes=2,
    )


def test_a_compiled_model_loads_without_a_warning(tmp_path):
    """keras-hub saves its optimizer, which kdkit does not need."""
    model = make_classifier()
    tokenizer = keras_hub.tokenizers.BertTokenizer(VOCABULARY, lowercase=True)
    model.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=8
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    model.save_to_preset(str(tmp_path / "teacher"))
    loaded = load_classifier(tmp_path / "teacher", 2)
    np.testing.assert_array_equal(loaded.model(BATCH), model(BATCH))
