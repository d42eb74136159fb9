"""Measures a model on a split of a task, or on text.

MODEL is a run directory, a preset directory, a .keras file or an exported
file; for an embedder also a directory of sentence-transformers. The last line
is a JSON object with task, split, examples and metrics. Metrics of a model in a
run directory are logged in the run, for kdkit report.

With --corpus, MODEL is a run of kdkit pretrain. An encoder is measured by
perplexity and accuracy at masked tokens, a decoder at every token and by its
perplexity per word, an encoder-decoder by the perplexity of hidden spans. A run
is masked as in its training, and the masks are printed; presets and models
inside a run, such as RUN/encoder, are measured with BERT's masks.

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

import contextlib
import dataclasses
import pathlib

from kdkit.cli.embedder_evaluation import (
    EmbeddingOptions,
    is_about_embeddings,
    open_on_embeddings,
    overlap_in_words,
    reading_in_words,
)
from kdkit.cli.groups import MeasuredOptions
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import reject_given, require_labels
from kdkit.cli.parser import Model, option
from kdkit.runs.events import Measurement
from kdkit.training.source import predict_logits


@dataclasses.dataclass
class Options(MeasuredOptions, EmbeddingOptions):
    """model"""

    model: Model | None = option(
        "a run, a directory with a model, a .keras file or an exported file",
        positional=True,
        required=True,
    )


def run(options):
    import json

    from kdkit.reporting.notes import what_is_hidden
    from kdkit.reporting.summary import HELP

    load_tensorflow()
    result = measure_and_note(options)
    hidden = what_is_hidden(result.get("masking"), result.get("spans"))
    if hidden:
        print(f"Measured with {hidden}.")
    signatures = result.get("signatures", {})
    for name, value in result["metrics"].items():
        how = f" ({signatures[name]})" if name in signatures else ""
        print(f"{name}: {value:.4f}{how}")
    for width, metrics in result.get("metrics_by_dimensions", {}).items():
        listed = (f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"first {width} dimensions: {', '.join(listed)}")
    if "collapsed" in result:
        print(f"The model has collapsed: it {result['collapsed']}. {HELP}.")
    for words in (reading_in_words(result), overlap_in_words(result)):
        if words:
            print(words)
    print(json.dumps(result))


def measure_and_note(options) -> dict:
    """Measures a model, and logs the metrics in its run if it has one."""
    with open_measurable(options) as model:
        metrics = model.measure()
        result = {**model.about, "metrics": metrics, **model.details}
    if model.run is not None:
        noted = {"arm": model.arm, **model.content, **result}
        rows = (model.origin or {}).get("rows")
        if rows is not None:
            noted["rows_digest"] = rows
        if model.model is None:
            noted["file"] = pathlib.Path(options.model).name
        model.run.note(Measurement(**noted))
    return result


@contextlib.contextmanager
def open_measurable(options):
    """Opens a model with a split of its task, or with text."""
    from kdkit.cli.models import locate
    from kdkit.cli.text_evaluation import (
        is_about_sentences,
        is_about_text,
        open_on_sentences,
        open_on_text,
    )

    place = locate(options.model, options.arm)
    if isinstance(options, EmbeddingOptions):
        options.pooling = options.pooling or place.pooling
        if is_about_embeddings(place, options):
            yield open_on_embeddings(place, options)
            return
    if is_about_sentences(options):
        yield open_on_sentences(options)
    elif is_about_text(options):
        with open_on_text(options) as measurable:
            yield measurable
    else:
        yield _open_on_task(place, options)


def _split(options):
    return options.split or ("test" if options.test else "dev")


def _open_on_task(place, options):
    from kdkit.cli.models import open_model
    from kdkit.cli.text_evaluation import Measurable
    from kdkit.runs import inputs

    names = ("column", "one_document", "detokenizer", "stride")
    reject_given(options, names, "without --corpus")
    opened = open_model(place, options)
    split = _split(options)
    examples = opened.read(split)
    encoded = opened.encode_rows(examples)
    require_labels(encoded, split)

    def measure():
        logits = predict_logits(opened.predict, encoded)
        return opened.task.compute_metrics(encoded.targets, logits)

    about = {
        "task": opened.task.name,
        "split": split,
        "examples": len(encoded),
    }
    content = {
        "data_digest": inputs.rows_digest(encoded),
        "sequence_length": opened.sequence_length,
    }
    # The checksum of the examples as read, which no tokenizer changes.
    rows = {"rows": inputs.rows_digest(examples)}
    return Measurable(
        about, content, measure, opened.model, place.run, place.arm, rows
    )
