"""Chinese polyphones: pretrain on characters, fine-tune, distil.

    python examples/polyphone.py DATA_DIR [--output runs]

DATA_DIR holds polyphone/dev.sent and so on (docs/tasks.md). No pretrained
encoder with a vocabulary of Chinese characters is needed: one is made here from
the training sentences. Each step is a run directory that goes on where it was
stopped; the same steps from the command line are kdkit pretrain, train-teacher
and distill.
"""

import argparse
import dataclasses
import logging
import pathlib

import kdkit
from kdkit import tasks
from kdkit.recipes import RECIPES, fine_tuning, pretraining

METHODS = ("fine_tuning", "vanilla_kd", "pkd")
LENGTH = 64  # characters


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_dir")
    parser.add_argument("--output", default="runs")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--pretraining-epochs", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    output = pathlib.Path(options.output)
    output.mkdir(parents=True, exist_ok=True)

    task = tasks.get_task("polyphone").for_data(options.data_dir)
    train, dev = (
        task.load(split, options.data_dir) for split in ("train", "dev")
    )
    baseline = tasks.majority_accuracy(train, dev)
    print(f"The most frequent reading of each character: {baseline:.4f} on dev")

    text = output / "polyphone_text.txt"
    vocabulary = output / "polyphone_vocabulary.txt"
    text.write_text(
        "".join(f"{''.join(words)}\n" for words in train.words),
        encoding="utf-8",
    )
    vocabulary.write_text(
        "".join(f"{piece}\n" for piece in task.kind.vocabulary),
        encoding="utf-8",
    )
    same = {"training": {"seed": options.seed}}
    pretrained, teacher = (
        output / f"polyphone_{name}" for name in ("pretrained", "teacher")
    )
    kdkit.run(
        kdkit.TextConfig(
            recipe="pretraining",
            corpus={
                "kind": "corpus",
                "files": [str(text)],
                "held_out_every": 20,
                "sequence_length": LENGTH,
            },
            student={
                "num_layers": options.layers,
                "hidden_dim": options.width,
                "num_heads": 4,
                "intermediate_dim": 4 * options.width,
                "max_sequence_length": LENGTH,
            },
            tokenizer=str(vocabulary),
            stages=with_epochs(
                pretraining.STAGES, options.pretraining_epochs, 5e-4
            ),
            **same,
        ),
        pretrained,
    )
    data = {
        "task": "polyphone",
        "data_dir": options.data_dir,
        "sequence_length": LENGTH,
    }
    kdkit.run(
        kdkit.TaskConfig(
            recipe="fine_tuning",
            data=data,
            student={"checkpoint": str(pretrained)},
            stages=with_epochs(fine_tuning.STAGES, options.epochs, 2e-4),
            **same,
        ),
        teacher,
    )
    for name in METHODS:
        config = kdkit.TaskConfig(
            recipe=name,
            data=data,
            teacher=[str(teacher)],
            pretrained=str(pretrained),
            student={
                "copy_from": "pretrained",
                "rule": "bottom",
                "num_layers": options.layers // 2,
            },
            stages=with_epochs(
                RECIPES[name].stages_for(task), options.epochs, 2e-4
            ),
            **same,
        )
        kdkit.run(config, output / f"polyphone_{name}_seed{options.seed}")


def with_epochs(stages, epochs, learning_rate):
    return tuple(
        dataclasses.replace(stage, epochs=epochs, learning_rate=learning_rate)
        for stage in stages
    )


if __name__ == "__main__":
    main()
