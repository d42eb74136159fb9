"""Evaluates a model on a split of a task, or on running text.

MODEL is a run directory, a preset directory, a .keras file or an exported
file. The last line is a JSON object with task, split, examples and metrics.
With --corpus MODEL is a run of kdkit pretrain, measured by perplexity and
accuracy: an encoder at masked tokens, a decoder at every token, and by
perplexity over words. A run's text is masked as it was in training, which is
said; presets and what lies in a run, such as RUN/encoder, are measured with
BERT's masks. With
--pairs MODEL is a run with an encoder-decoder, measured by BLEU and chrF of
what it writes (by sacrebleu, whose signatures are in the last line) and by the
perplexity of the targets, from their own sources and from those of other
targets, which a model that reads does not know them by; with --corpus by the
perplexity of hidden spans.
Without any of these such a run is measured on what it held out. What is
measured of a run directory is noted in it, for kdkit report.

example:
  kdkit evaluate runs/tinybert/exports/student-int8.tflite \\
      --task sst2 --data-dir glue
  kdkit evaluate runs/pretrained --corpus text.txt
  kdkit evaluate runs/gpt2 --corpus ptb.test.txt --one-document \\
      --detokenizer ptb --sequence-length 512 --stride 256
  kdkit evaluate runs/en_de --pairs test.en test.de --num-beams 5
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    shared.add_measured(parser)


def run(options):
    import json

    from kdkit.cli.evaluating import measure_and_note
    from kdkit.reporting.notes import what_is_hidden

    result = measure_and_note(options)
    hidden = what_is_hidden(result)
    if hidden:
        print(f"Measured with {hidden}.")
    signatures = result.get("signatures", {})
    for name, value in result["metrics"].items():
        how = f" ({signatures[name]})" if name in signatures else ""
        print(f"{name}: {value:.4f}{how}")
    print(json.dumps(result))
