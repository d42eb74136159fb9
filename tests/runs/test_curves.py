"""TensorBoard's points: each once, even after a run was stopped."""

from kdkit.training.callbacks import Curves, read_points


def values(folder):
    return {
        place: event.summary.value[0].simple_value
        for place, event in read_points(folder).items()
    }


def write(folder, first_step, first_epoch, steps, scale=1.0):
    curves = Curves(folder, first_step, first_epoch, steps_between=2)
    for _ in range(steps):
        curves.on_train_batch_end(0, {"loss": scale})
    curves.write_epoch(first_epoch + 1, {"loss": scale, "val_loss": 2 * scale})
    curves.flush()


def test_points_of_steps_that_are_done_again_are_dropped(tmp_path):
    write(tmp_path, 0, 0, steps=6)
    (file,) = (tmp_path / "train").iterdir()
    with open(file, "ab") as cut_off:
        cut_off.write(b"half of a point")
    write(tmp_path, 3, 0, steps=3, scale=4.0)
    assert values(tmp_path / "train") == {
        ("batch_loss", 2): 1.0,
        ("batch_loss", 4): 4.0,
        ("batch_loss", 6): 4.0,
        ("epoch_loss", 0): 4.0,
    }
    assert values(tmp_path / "validation") == {("epoch_loss", 0): 8.0}
    assert len(list((tmp_path / "train").iterdir())) == 1


def test_tensorboard_reads_the_points(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator

    write(tmp_path, 0, 0, steps=4)
    accumulator = event_accumulator.EventAccumulator(str(tmp_path / "train"))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == {"batch_loss", "epoch_loss"}
    assert [
        (event.step, event.value) for event in accumulator.Scalars("batch_loss")
    ] == [(2, 1.0), (4, 1.0)]
