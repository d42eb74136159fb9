"""What TensorBoard shows of a stage, each point once."""

import pathlib
import time

import keras

from kdkit.backends import tf

PARTS = ("train", "validation")
BATCH, EPOCH = "batch_", "epoch_"


class Curves(keras.callbacks.Callback):
    """Writes losses and metrics into files that TensorBoard reads.

    Points of steps and epochs that will be done again are dropped when a run
    goes on, and what was written by earlier sittings stands in the one file of
    this sitting.

    Args:
        directory: `pathlib.Path`. It gets the folders `train` and `validation`.
        first_step: int. Steps of the stage that are done.
        first_epoch: int. Epochs of it that are finished.
        steps_between: int. From one point within an epoch to the next. Defaults
            to `100`.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        first_step: int,
        first_epoch: int,
        steps_between: int = 100,
    ):
        super().__init__()
        self._step = first_step
        self._steps_between = steps_between
        self._files = {
            part: _open(directory / part, first_step, first_epoch)
            for part in PARTS
        }

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        if self._step % self._steps_between == 0:
            for name, value in logs.items():
                self._write("train", f"{BATCH}{name}", value, self._step)

    def write_epoch(self, epoch: int, logs: dict) -> None:
        """Writes what an epoch gave.

        Args:
            epoch: int. The number of finished epochs.
            logs: dict of floats, those on dev with `val_` before their names.
        """
        for name, value in logs.items():
            part = "validation" if name.startswith("val_") else "train"
            name = name.removeprefix("val_")
            self._write(part, f"{EPOCH}{name}", value, epoch - 1)

    def flush(self) -> None:
        """Hands all points to the system, which a checkpoint follows."""
        for file in self._files.values():
            file.flush()

    def on_train_end(self, logs=None):
        for file in self._files.values():
            file.close()

    def _write(self, part, tag, value, step):
        summary = tf.compat.v1.Summary(
            value=[
                tf.compat.v1.Summary.Value(tag=tag, simple_value=float(value))
            ]
        )
        event = tf.compat.v1.Event(
            wall_time=time.time(), step=step, summary=summary
        )
        self._files[part].write(event.SerializeToString())


def read_points(directory: pathlib.Path) -> dict:
    """Returns the points in a folder, `tf.compat.v1.Event` by tag and step.

    Args:
        directory: `pathlib.Path`, of files that may end in half a point.
    """
    points = {}
    for file in sorted(directory.glob("*tfevents*")):
        records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
        try:
            for record in records:
                event = tf.compat.v1.Event.FromString(record)
                for value in event.summary.value:
                    points[value.tag, event.step] = event
        except Exception:  # TensorFlow's and protobuf's kinds
            continue  # its process was killed while it wrote
    return points


def _open(directory, first_step, first_epoch):
    """A file with the points so far in the place of all that were there."""
    directory.mkdir(parents=True, exist_ok=True)
    old = sorted(directory.glob("*tfevents*"))
    points = read_points(directory)
    path = directory / f"events.out.tfevents.{time.time_ns()}"
    file = tf.io.TFRecordWriter(str(path))
    head = tf.compat.v1.Event(
        wall_time=time.time(), file_version="brain.Event:2"
    )
    file.write(head.SerializeToString())
    for (tag, step), event in points.items():
        is_done = (
            step < first_epoch if tag.startswith(EPOCH) else step <= first_step
        )
        if is_done:
            file.write(event.SerializeToString())
    file.flush()
    for earlier in old:
        earlier.unlink()
    return file
