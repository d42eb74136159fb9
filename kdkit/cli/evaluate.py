"""Evaluates a model on a split of a task, or on running text.

MODEL is a run directory, a preset directory, a .keras or a .tflite file. The
last line is a JSON object with task, split, examples and metrics. With --corpus
MODEL is a run of kdkit pretrain, measured by perplexity and accuracy: an
encoder at masked tokens, a decoder at every token, and by perplexity over
words. Without it such a run is measured on the text that it held out.

example:
  kdkit evaluate runs/tinybert/exports/student-int8.tflite \\
      --task sst2 --data-dir glue
  kdkit evaluate runs/pretrained --corpus text.txt
  kdkit evaluate runs/gpt2 --corpus ptb.test.txt --one-document \\
      --detokenizer ptb --sequence-length 512 --stride 256
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    shared.add_task(parser)
    shared.add_model_choice(parser)
    parser.add_argument("--split", help="dev unless set")
    shared.add_texts(parser)
    shared.add_benchmark_text(parser)
    parser.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="of a decoder: begin each row so many tokens after the last one, "
        "so that more stands before what is predicted; a whole row unless set",
    )


def run(options):
    import json

    from kdkit.cli.text_evaluation import evaluate_on_text
    from kdkit.cli.text_evaluation import is_about_text

    result = (
        evaluate_on_text(options)
        if is_about_text(options)
        else _evaluate_on_task(options)
    )
    for name, value in result["metrics"].items():
        print(f"{name}: {value:.4f}")
    print(json.dumps(result))


def _evaluate_on_task(options):
    from kdkit.cli.locating import locate
    from kdkit.cli.opening import open_model
    from kdkit.errors import UsageError
    from kdkit.training.evaluation import predict_logits

    given = shared.given_flags(
        options, ("column", "one_document", "detokenizer", "stride")
    )
    if given:
        raise UsageError(
            f"{' and '.join(given)} needs --corpus. Received: none."
        )
    opened = open_model(locate(options.model, options.arm), options)
    split = options.split or "dev"
    encoded = opened.encode(split)
    shared.require_labels(encoded, split)
    logits = predict_logits(opened.predict, encoded)
    return {
        "task": opened.task.name,
        "split": split,
        "examples": len(encoded),
        "metrics": opened.task.compute_metrics(encoded.targets, logits),
    }
