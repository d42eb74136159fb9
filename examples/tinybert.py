"""TinyBERT in plain Keras: Distiller, compile, fit, TensorBoard, export.

    python examples/tinybert.py

Trains a teacher on generated sentences, distils it in two steps and writes a
verified int8 file. The command line's twin is examples/tinybert.sh. For a real
teacher, replace `make_teacher` by `kdkit.models.load_classifier(...)` and the
sentences by `kdkit.tasks.get_task("sst2").load("train", "glue")`.
"""

import argparse
import pathlib

import keras
import keras_hub

import kdkit
from kdkit import data
from kdkit import tasks

SEQUENCE_LENGTH = 32
BATCH_SIZE = 32


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="runs/example_tinybert")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    output = pathlib.Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)

    task = tasks.get_task("sentiment")
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    rows = task.load("train").take(range(options.rows))
    train = data.encode(rows, tokenizer, SEQUENCE_LENGTH)
    dev = data.encode(task.load("dev"), tokenizer, SEQUENCE_LENGTH)
    batching = data.Buckets(BATCH_SIZE)
    stream = data.BatchStream(train, batching, seed=0)
    batches = stream.training()
    dev_batches = data.BatchStream(dev, batching).evaluation()

    teacher = make_model(tokenizer, num_layers=4, hidden_dim=64)
    teacher.compile(
        optimizer=keras.optimizers.AdamW(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    fit = {
        "steps_per_epoch": stream.steps_per_epoch,
        "epochs": options.epochs,
        "validation_data": dev_batches,
        "shuffle": False,  # the stream does that
        "verbose": 2,
    }
    teacher.fit(batches, **fit)

    student = make_model(tokenizer, num_layers=2, hidden_dim=32)
    intermediate_layer = [
        kdkit.Objective(
            kdkit.losses.AttentionMSE(),
            tap="attention_logits",
            layer_map="uniform",
        ),
        kdkit.Objective(
            kdkit.losses.HiddenStateMSE(),
            tap="hidden_states",
            layer_map="uniform",
            projection="shared",
        ),
    ]
    prediction_layer = [
        kdkit.Objective(kdkit.losses.SoftCrossEntropy(temperature=1.0))
    ]
    for name, objectives in (
        ("intermediate_layer", intermediate_layer),
        ("prediction_layer", prediction_layer),
    ):
        distiller = kdkit.Distiller(teacher, student, objectives)
        distiller.compile(
            optimizer=keras.optimizers.AdamW(1e-3), metrics=["accuracy"]
        )
        distiller.fit(
            batches,
            callbacks=[keras.callbacks.TensorBoard(output / name)],
            **fit,
        )

    student.save(output / "student.keras")
    report = kdkit.export.to_litert(
        student,
        output / "student-int8.tflite",
        precision="int8",
        verification_data=dev_batches,
        overwrite=True,
    )
    print(report)


def make_model(tokenizer, num_layers, hidden_dim):
    return kdkit.models.student(
        {
            "num_layers": num_layers,
            "hidden_dim": hidden_dim,
            "num_heads": 4,
            "intermediate_dim": 4 * hidden_dim,
            "vocabulary_size": tokenizer.vocabulary_size(),
            "max_sequence_length": SEQUENCE_LENGTH,
        },
        num_classes=2,
    )


if __name__ == "__main__":
    main()
