"""Pretrains an encoder on running text by masked-language modelling.

The model is left in RUN/encoder/, a keras-hub preset directory. Perplexity and
accuracy are those of masked tokens in text that is held out. The same command
goes on with a run that was stopped.

With --recipe and --teacher the student learns from an encoder by the stages of
a recipe that are on running text: TinyBERT's general distillation, DistilBERT's
pretraining. kdkit distill takes the run by --general.

example:
  kdkit pretrain --corpus wiki.txt --model bert_base_en_uncased \\
      --run-dir runs/pretrained
  kdkit pretrain --recipe tinybert --teacher bert_base_en_uncased \\
      --corpus wiki.txt --run-dir runs/general
  kdkit pretrain --corpus reviews.tsv --column text --tokenizer ENCODER \\
      --student tinybert_4_layer_en_uncased --run-dir runs/from_scratch
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    shared.add_corpus(parser)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the encoder to go on with: a preset's name, a directory or a "
        "run; a new head is put on it if it has none",
    )
    parser.add_argument(
        "--student",
        metavar="PRESET",
        help="in place of --model: a student preset (see kdkit list) with "
        "random weights",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="for --student: where its tokenizer is, a run, a preset directory "
        "or a vocabulary file of one piece a line (.txt)",
    )
    parser.add_argument(
        "--recipe",
        metavar="RECIPE",
        help="learn from --teacher as a recipe does (see kdkit list)",
    )
    parser.add_argument(
        "--teacher",
        metavar="MODEL",
        help="for --recipe: the pretrained encoder to learn from, not "
        "fine-tuned",
    )
    parser.add_argument(
        "--parity",
        help="for --recipe: a variant of it, see kdkit show RECIPE",
    )
    shared.add_run(parser)


def run(options):
    from kdkit.cli import resolving
    from kdkit.training import pretrain

    pretrain(resolving.pretrain_settings(options), options.run_dir)
