"""Runs whose student is of another family than the teacher."""

import numpy as np
import pytest
from kit.encoders import encoder
from kit.helpers import batch

from kdkit.errors import UsageError
from kdkit.models import load_classifier
from kdkit.models.families import FAMILIES
from kdkit.settings import override
from kdkit.training import distill
from kdkit.training.task_data import make_forward

pytestmark = pytest.mark.usefixtures("quick_runs")


def test_evaluation_leaves_out_inputs_that_the_model_lacks():
    """Keras itself would take segments for tokens."""
    model = encoder("distil_bert")
    x = batch()
    own = {name: x[name] for name in model.input}
    x["segment_ids"] = 1 - x["padding_mask"]
    np.testing.assert_allclose(
        make_forward(model)(x), model(own, training=False), rtol=1e-4
    )


@pytest.mark.large
def test_a_distil_bert_is_distilled_beside_its_control(
    smoke_settings, tmp_path
):
    settings = override(smoke_settings, ["student.family=distil_bert"])
    distill(settings, tmp_path)
    for arm in ("student", "control"):
        loaded = load_classifier(tmp_path / arm, num_classes=2)
        family = FAMILIES["distil_bert"]
        assert type(loaded.model) is family.classifier
        assert isinstance(loaded.tokenizer, family.tokenizer)


@pytest.mark.large
def test_a_student_that_cannot_read_the_teachers_tokens_is_refused(
    smoke_settings, tmp_path
):
    settings = override(smoke_settings, ["student.family=roberta"])
    with pytest.raises(UsageError, match="RoBERTa cannot use the tokens"):
        distill(settings, tmp_path)
