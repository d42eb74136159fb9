"""Students made of an encoder's own blocks."""

import numpy as np
import pytest
from kit.helpers import batch, bert

from kdkit.models import (
    HEADS,
    Head,
    add_head,
    choose_blocks,
    copy_blocks,
    copy_head,
)


@pytest.mark.parametrize(
    ("rule", "num_blocks", "num_copied", "expected"),
    [
        ("first", 12, 6, (1, 2, 3, 4, 5, 6)),
        ("first", 12, 3, (1, 2, 3)),
        ("spread", 12, 6, (1, 3, 5, 8, 10, 12)),
        ("spread", 6, 3, (1, 3, 6)),
        ("spread", 24, 6, (1, 6, 10, 15, 19, 24)),
        ("spread", 3, 1, (1,)),
        ("spread", 4, 4, (1, 2, 3, 4)),
    ],
)
def test_blocks_are_those_of_the_papers(rule, num_blocks, num_copied, expected):
    assert choose_blocks(rule, num_blocks, num_copied) == expected


def test_student_of_chosen_blocks_owns_copies_of_them():
    classifier = bert(num_layers=3)
    student = copy_blocks(classifier, (1, 3))
    ours = student.transformer_layers[1].get_weights()
    theirs = classifier.backbone.transformer_layers[2].get_weights()
    for copied, original in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(copied, original)
    student.transformer_layers[1].trainable_weights[0].assign_add(
        np.ones_like(ours[0])
    )
    again = classifier.backbone.transformer_layers[2].get_weights()
    np.testing.assert_array_equal(again[0], theirs[0])


@pytest.mark.parametrize("kind", HEADS)
def test_a_student_of_all_blocks_and_the_head_is_its_teacher(kind):
    head = Head(kind, 2)
    teacher = add_head(bert(num_layers=2, num_classes=None), head)
    student = add_head(copy_blocks(teacher, (1, 2)), head)
    copy_head(student, teacher)
    x = batch()
    np.testing.assert_allclose(student(x), teacher(x), atol=1e-6)
