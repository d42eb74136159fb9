"""Trains a language model on text.

An encoder learns masked tokens and is saved in RUN/encoder/; a decoder learns
the next token and is saved in RUN/decoder/; an encoder-decoder learns to write
the hidden part of a sentence, or from --pairs one text from another, and is
saved in RUN/encoder_decoder/. All are keras-hub preset directories. Perplexity
and accuracy are of text that is held out. The same command continues a run that
was stopped.

With --recipe and --teacher a student learns from a teacher by the recipe's
stages on text, such as TinyBERT's general distillation or DistilBERT's
pretraining, and is saved in RUN/student/. kdkit distill takes the run by
--general. With --cache what the
teacher says is kept, of text that is the same in every epoch: running text for
decoders or as it stands, and pairs.

example:
  kdkit pretrain --corpus wiki.txt --model bert_base_en_uncased \\
      --run-dir runs/pretrained
  kdkit pretrain --recipe tinybert --teacher bert_base_en_uncased \\
      --corpus wiki.txt --run-dir runs/general
  kdkit pretrain --corpus reviews.tsv --column text --tokenizer ENCODER \\
      --student tinybert_4_layer_en_uncased --run-dir runs/from_scratch
  kdkit pretrain --corpus ptb.train.txt --held-out ptb.valid.txt \\
      --one-document --detokenizer ptb --student lightpaff_gpt2_4_layer_en \\
      --vocabulary-size 8000 --run-dir runs/gpt2
  kdkit pretrain --corpus train.en train.de --languages en de \\
      --student lightpaff_mass_6_4_layer --vocabulary-size 32000 \\
      --run-dir runs/mass
  kdkit pretrain --pairs train.en train.de --languages en de \\
      --held-out val.en val.de --model runs/mass --run-dir runs/en_de
  kdkit pretrain --pairs train.en train.de --vocabulary-size 40000 \\
      --separate-vocabularies --student lightpaff_mass_6_4_layer \\
      --run-dir runs/en_de_from_scratch
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    shared.add_corpus(parser)
    shared.add_benchmark_text(parser)
    shared.add_sentences(parser)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the model to go on with: a preset's name, a directory or a run; "
        "an encoder without a head gets a new one",
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
        "or a vocabulary file: of one piece a line (.txt), or of byte pairs "
        "with the merges beside it (vocab.json, encoder.json)",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        metavar="N",
        help="in place of --tokenizer, for a decoder or an encoder-decoder: "
        "train a byte-pair tokenizer of so many tokens on the text",
    )
    parser.add_argument(
        "--separate-vocabularies",
        action="store_const",
        const=True,
        help="for --pairs and --vocabulary-size: train a tokenizer of so many "
        "tokens on each side, in place of a joint one",
    )
    parser.add_argument(
        "--recipe",
        metavar="RECIPE",
        help="learn from --teacher as a recipe does (see kdkit list)",
    )
    parser.add_argument(
        "--teacher",
        metavar="MODEL",
        help="for --recipe: the model to learn from, trained on such text",
    )
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help="for --recipe and a decoder or an encoder-decoder: which of the "
        "recipe's stages; its first unless set, with --pairs its last",
    )
    parser.add_argument(
        "--parity",
        help="for --recipe: a variant of it, see kdkit show RECIPE",
    )
    shared.add_cache(parser)
    parser.set_defaults(teacher_file=None)  # of tasks
    shared.add_force(parser)
    shared.add_run(parser)


def run(options):
    from kdkit import training
    from kdkit.cli import resolving
    from kdkit.runs import first_checks

    settings = resolving.pretrain_settings(options)
    first_checks.check_first(settings, options.run_dir)
    training.pretrain(settings, options.run_dir, force=options.force)
