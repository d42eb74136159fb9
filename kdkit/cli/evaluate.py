"""Evaluates a model on a split of a task.

MODEL is a run directory, a preset directory, a .keras or a .tflite file. The
last line is a JSON object with task, split, examples and metrics.

example:
  kdkit evaluate runs/tinybert/exports/student-int8.tflite \\
      --task sst2 --data-dir glue
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    shared.add_task(parser)
    shared.add_model_choice(parser)
    parser.add_argument("--split", default="dev", help="dev unless set")


def run(options):
    import json

    from kdkit.cli.locating import locate
    from kdkit.cli.opening import open_model
    from kdkit.training.evaluation import predict_logits

    opened = open_model(locate(options.model, options.arm), options)
    encoded = opened.encode(options.split)
    shared.require_labels(encoded, options.split)
    logits = predict_logits(opened.predict, encoded)
    metrics = opened.task.compute_metrics(encoded.targets, logits)
    for name, value in metrics.items():
        print(f"{name}: {value:.4f}")
    print(
        json.dumps(
            {
                "task": opened.task.name,
                "split": options.split,
                "examples": len(encoded),
                "metrics": metrics,
            }
        )
    )
