"""Label smoothing of a run on pairs: in training alone, and linear."""

import pytest
from kit.adapter import command
from kit.helpers import ENGLISH, GERMAN, read_events
from kit.runs import settings

pytestmark = pytest.mark.large

SIZES = {
    "encoder_num_layers": 1,
    "decoder_num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 12,
    "max_sequence_length": 32,
}


def test_labels_are_smoothed_in_training_alone(tmp_path):
    """(1 − s) · loss of labels + s · loss of all tokens is linear in s."""
    for language, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"train.{language}").write_text("\n".join(4 * lines))
        (tmp_path / f"dev.{language}").write_text("\n".join(lines))
    train, dev = (
        [tmp_path / f"{part}.{language}" for language in ("en", "de")]
        for part in ("train", "dev")
    )
    losses, perplexities = [], []
    for number, share in enumerate((0.0, 0.3, 0.6)):
        run = tmp_path / str(number)
        words = (
            *("pretrain", "--pairs", *train, "--held-out", *dev),
            *("--languages", "en", "de", "--force"),  # dev rows are in train
            *("--vocabulary-size", "290", "--run-dir", run),
            *("--student", "lightpaff_mass_6_4_layer"),
            *settings(**{f"student__{k}": v for k, v in SIZES.items()}),
            *settings(
                student__dropout=0.0,
                corpus__sequence_length=32,
                training__jit_compile="false",
                epochs=1,
                learning_rate=1e-12,
                stages__fine_tuning__label_smoothing=share,
            ),
        )
        answer = command(words)
        assert answer.status == 0, answer
        (epoch,) = read_events(run, "epoch")
        losses.append(epoch["logs"]["loss"])
        (evaluation,) = read_events(run, "evaluation")
        perplexities.append(evaluation["metrics"]["perplexity"])
    assert losses[1] == pytest.approx((losses[0] + losses[2]) / 2, rel=1e-6)
    assert losses[2] != pytest.approx(losses[0], rel=1e-6)
    assert perplexities == pytest.approx([perplexities[0]] * 3, rel=1e-6)
