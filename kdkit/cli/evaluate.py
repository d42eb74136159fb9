"""Measures a model on a split of a task, or on text.

MODEL is a run directory, a preset directory, a .keras file or an exported
file; for an embedder also a directory of sentence-transformers. The last line
is a JSON object with task, split, examples and metrics. Metrics of a model in a
run directory are logged in the run, for kdkit report.

With --corpus, MODEL is a run of kdkit pretrain. An encoder is measured by
perplexity and accuracy at masked tokens, a decoder at every token and by its
perplexity per word, an encoder-decoder by the perplexity of hidden spans. A run
is masked as in its training; presets and models inside a run, such as
RUN/encoder, are measured with BERT's masks. The last line names the masks.

With --pairs, MODEL is a run with an encoder-decoder. It is measured by BLEU and
chrF (from sacrebleu, whose signatures are in the last line), and by the
perplexity of the targets given their own sources and given other sources: if
these are near each other, the model does not read its source.

An embedder needs no head. On pairs with scores, such as --task stsb, it is
measured by the correlations of Spearman and Pearson between cosines and scores;
with --queries, --documents and --judgements by nDCG, MRR and recall; with
--bitext by how often the translation is the nearest text. For an embedder of a
run, the texts that the run was trained on are counted, and the metrics without
them are printed.

A run on text needs none of these options: its held-out text is the default.

example:
  kdkit evaluate runs/tinybert/exports/student-int8.tflite \\
      --task sst2 --data-dir glue
  kdkit evaluate runs/encoder --task stsb --data-dir glue
  kdkit evaluate all-MiniLM-L6-v2 --queries queries.jsonl \\
      --documents corpus.jsonl --judgements qrels/test.tsv
  kdkit evaluate runs/multilingual --bitext test.en test.de
  kdkit evaluate runs/pretrained --corpus text.txt
  kdkit evaluate runs/gpt2 --corpus ptb.test.txt --one-document \\
      --detokenizer ptb --sequence-length 512 --stride 256
  kdkit evaluate runs/en_de --pairs test.en test.de --num-beams 5
"""

import json

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.verb_flags import (
    BEAMS,
    EMBEDDINGS,
    MODEL,
    PAIRS,
    TASK,
    TEXT,
    VerbParser,
    flag,
)


def parser() -> VerbParser:
    """Returns the parser for the verb's words."""
    return VerbParser(
        "evaluate",
        __doc__,
        {
            "model": flag(
                "a run, a directory with a model, a .keras file or an exported "
                "file",
                metavar="MODEL",
            )
        },
        {
            "model": MODEL,
            "task": TASK
            | {"split": flag("the task's split. Defaults to dev.")},
            "sentence embeddings": EMBEDDINGS,
            "text": TEXT
            | {
                "stride": flag(
                    "start each sequence so many tokens after the one before. "
                    "A smaller stride gives more context to each prediction. "
                    "Defaults to the sequence length.",
                    type=int,
                    metavar="N",
                )
            },
            "pairs for encoder-decoders": PAIRS | BEAMS,
        },
    )


def run(words):
    """Measures a model and prints its metrics."""
    options = parser().parse_args(words)
    load_tensorflow()

    from kdkit.cli.embedder_evaluation import overlap_in_words, reading_in_words
    from kdkit.cli.measuring import measure_and_note
    from kdkit.reporting.words import HELP

    result = measure_and_note(options)
    signatures = result.get("signatures", {})
    for name, value in result["metrics"].items():
        how = f" ({signatures[name]})" if name in signatures else ""
        print(f"{name}: {value:.4f}{how}")
    for width, metrics in result.get("metrics_by_dimensions", {}).items():
        listed = (f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"first {width} dimensions: {', '.join(listed)}")
    if "collapsed" in result:
        print(f"The model has collapsed: it {result['collapsed']}. {HELP}.")
    for told in (reading_in_words(result), overlap_in_words(result)):
        if told:
            print(told)
    print(json.dumps(result))


def measured_once(run_dir: str) -> dict:
    """Returns the metrics of kdkit evaluate RUN, for an encoder-decoder's run.

    Those that the run has noted for its own text are not measured again.
    """
    from kdkit import generation
    from kdkit.cli.measuring import measure_and_note
    from kdkit.cli.places import locate
    from kdkit.runs.events import Measurement
    from kdkit.tasks import generation_signatures

    place, beams = locate(run_dir), generation.Beams()
    text = place.corpus
    wanted = {
        "pairs": text.held_out or text.files,
        "columns": text.columns,
        "held_out_every": None if text.held_out else text.held_out_every,
        "languages": text.languages,
        "signatures": generation_signatures(text.sides[1]),
        "sequence_length": text.sequence_length,
        "beam_size": beams.beam_size,
        "length_penalty": beams.length_penalty,
        "file": None,
    }
    for event in place.run.events(Measurement, **wanted):
        return event.to_dict()
    return measure_and_note(parser().parse_args([run_dir]))
