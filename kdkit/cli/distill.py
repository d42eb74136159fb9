"""Trains a student from a fine-tuned teacher by a recipe.

The student is left in RUN/student/, a keras-hub preset directory. The same
command goes on with a run that was stopped.

example:
  kdkit distill tinybert --task sst2 --data-dir glue \
      --teacher runs/teacher --control --run-dir runs/tinybert
  kdkit distill lightpaff --task sst2 --data-dir glue --corpus wiki.txt \
      --encoder bert_base_en_uncased --run-dir runs/lightpaff
  kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb \
      --run-dir runs/lightpaff_gpt2
  kdkit distill lightpaff --model mass --decoder mass_6_layer \
      --vocabulary-size 32000 --corpus train.en train.de --languages en de \
      --pairs train.en train.de --task-held-out val.en val.de \
      --run-dir runs/lightpaff_en_de
  kdkit distill --config runs/tinybert/config.json --run-dir runs/again
"""

from kdkit.cli import options as shared
from kdkit.cli.options import is_on_text
from kdkit.cli.options import settings_of
from kdkit.errors import UsageError
from kdkit.runs import Pipeline
from kdkit.runs.directory import is_finished
from kdkit.runs.settings import DistillSettings


def add_arguments(parser):
    add_whole_distillation(parser, nargs="?")
    shared.add_force(parser)
    shared.add_run(parser)


def add_whole_distillation(parser, nargs=None):
    """Adds what says what is made, before it and beside it included.

    Args:
        parser: `argparse.ArgumentParser`.
        nargs: of the recipe; `"?"` where --config may name it.
    """
    add_distillation(parser, nargs)
    parser.add_argument(
        "--encoder",
        metavar="MODEL",
        help="in place of --teacher: fine-tune this pretrained encoder on the "
        "task first, in RUN/teacher_run; and where the recipe learns from it "
        "on --corpus, pretrain it there before, in RUN/pretrained_run; both "
        "with seed 0, and change with --set teacher.… and pretrained.…",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="also train the same student on the labels alone, for the same "
        "number of updates",
    )
    add_decoder(parser)


def add_decoder(parser):
    """Adds what a recipe for a decoder is told."""
    group = parser.add_argument_group(
        "decoders and encoder-decoders",
        "Each step is a run of kdkit pretrain:\n"
        "  RUN/pretrained_run  the teacher on --corpus\n"
        "  RUN/teacher_run     the teacher on --task-text or --pairs\n"
        "  RUN/general_run     the student on --corpus\n"
        "  RUN                 the student on --task-text or --pairs\n"
        "--pretrained, --teacher and --general give what a step would make.\n"
        "--set pretrained.…, teacher.… and general.… are of these steps,\n"
        "other fields of the last.",
    )
    group.add_argument(
        "--model",
        metavar="FAMILY",
        default="bert",
        help="bert for encoders (default), a decoder (gpt2, llama3) or mass",
    )
    group.add_argument(
        "--decoder",
        metavar="MODEL",
        help="the teacher to pretrain: a preset with random weights (see kdkit "
        "list), or a model to go on with",
    )
    group.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="for a --decoder with random weights: where its tokenizer is, a "
        "run, a preset directory or, for GPT-2, a vocabulary of byte pairs "
        "(vocab.json, encoder.json)",
    )
    group.add_argument(
        "--vocabulary-size",
        type=int,
        metavar="N",
        help="in place of --tokenizer: train one of so many tokens on --corpus",
    )
    group.add_argument(
        "--task-text",
        nargs="+",
        metavar="FILE",
        help="for decoders: the text that the student is to be good at",
    )
    group.add_argument(
        "--task-held-out",
        nargs="+",
        metavar="FILE",
        help="text or pairs to measure that on; unless set, every 100th of "
        "--task-text or --pairs",
    )
    shared.add_benchmark_text(group)
    shared.add_sentences(group)


def add_distillation(parser, nargs=None):
    """Adds what says what is distilled from what, by which recipe."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs=nargs,
        help="see kdkit list" + ("; that of --config unless set" * bool(nargs)),
    )
    shared.add_task(parser)
    parser.add_argument(
        "--teacher",
        nargs="+",
        metavar="MODEL",
        help="a run of train-teacher, a preset directory of a classifier, or "
        "a .keras file; several with the same tokenizer teach together",
    )
    parser.add_argument(
        "--teacher-weights",
        nargs="+",
        type=float,
        metavar="W",
        help="how much each of several teachers counts; the same unless set",
    )
    parser.add_argument(
        "--student",
        metavar="MODEL",
        help="a student preset (see kdkit list), or a checkpoint to start "
        "from; unless set, the recipe's",
    )
    parser.add_argument(
        "--num-layers",
        type=int,
        metavar="N",
        help="blocks of a student made of an encoder's own; half of them "
        "unless set",
    )
    parser.add_argument(
        "--pretrained",
        metavar="MODEL",
        help="the encoder whose blocks those are, and the teacher on a corpus; "
        "the one that the teacher was fine-tuned from unless set",
    )
    parser.add_argument(
        "--word-vectors",
        metavar="FILE",
        help="the text file of vectors, such as glove.6B.300d.txt, that the "
        "embeddings of a BiLSTM start from; random unless set",
    )
    shared.add_corpus(parser)
    # Of models on text alone.
    parser.set_defaults(
        one_document=None,
        detokenizer=None,
        pairs=None,
        pair_columns=None,
        languages=None,
    )
    parser.add_argument(
        "--general",
        metavar="RUN",
        help="the student starts from this run of kdkit pretrain --recipe; "
        "with --corpus it is made there if it is not finished",
    )
    shared.add_unlabeled(parser)
    parser.add_argument(
        "--augment",
        metavar="FILE.tsv",
        help="train on these copies too, as kdkit augment writes them",
    )
    parser.add_argument(
        "--augment-model",
        metavar="MODEL",
        help="make that file if it is not there, with this masked-language "
        "model, a run of kdkit pretrain",
    )
    parser.add_argument(
        "--augment-vectors",
        metavar="FILE",
        help="and these word vectors, as kdkit augment --word-vectors",
    )
    shared.add_cache(parser)
    shared.add_teacher_file(parser)
    parser.add_argument(
        "--stages",
        nargs="+",
        metavar="NAME",
        help="only these stages of the recipe",
    )
    parser.add_argument(
        "--parity",
        help="a variant of the recipe, see kdkit show RECIPE",
    )


def run(options):
    from kdkit.doctor import text_examination
    from kdkit.runs import first_checks

    pipeline, findings = pipeline_of(options), None
    first_checks.check_first(pipeline.settings, pipeline.run_dir)
    is_on_task = isinstance(pipeline.settings, DistillSettings)
    if not (is_on_task or is_finished(pipeline.run_dir)):
        findings = text_examination.examine_steps_first(pipeline, options.force)
    pipeline.run(options.force, findings)


def pipeline_of(options) -> Pipeline:
    """Returns the chain of runs that the options describe.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`.

    Raises:
        UsageError: for the user's mistakes.
    """
    from kdkit.cli import resolving
    from kdkit.cli import text_steps

    if options.recipe is None:
        complete(options)
    if options.config is None and options.model != "bert":
        recipe = resolving.get_recipe(options.recipe)
        return text_steps.text_pipeline(recipe, options)
    text_steps.reject_for_encoders(options)
    if options.config is not None and is_on_text(options.config):
        return text_steps.repeated_pipeline(options)
    return Pipeline(resolving.distill_settings(options), options.run_dir)


def complete(options) -> None:
    """Takes the recipe from `--config` where none is named.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`;
            gets the recipe.

    Raises:
        UsageError: if there is no `--config`, or it is of another verb.
    """
    if options.config is None:
        raise UsageError(
            "Missing: RECIPE (see kdkit list), or --config, the config.json of "
            "a run to make again."
        )
    if not is_on_text(options.config):
        options.recipe = settings_of(DistillSettings, options.config).recipe
