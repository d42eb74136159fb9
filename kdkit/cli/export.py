"""Writes a model as verified LiteRT (.tflite) files or as a SavedModel.

Each file is compared with the Keras model on real rows of the task (generated
ones for a model without a known task) before it gets its name; what differs is
not written. For models of a run, accuracy on dev is measured too and noted in
the run. A run's teacher is exported too, once, in int8, to
RUN/exports/teacher, so that the report separates what distillation gained
from what quantisation gained. Models that have collapsed, or whose head was
never trained, are reported.

A decoder becomes a file of one step, with room for --sequence-length tokens,
compared with the Keras model token by token on text that its run held out. An
encoder-decoder becomes one file that reads a source, by the signature `encode`,
and writes token by token, by `decode`, with room for --sequence-length tokens
on either side.

example:
  kdkit export runs/tinybert --precision fp32 int8 --sequence-length 64
  kdkit export runs/gpt2 --precision int8 --sequence-length 512
  kdkit export runs/en_de --precision fp32 int8 --sequence-length 64
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    shared.add_task(parser)
    shared.add_model_choice(parser)
    parser.add_argument(
        "--format",
        choices=["litert", "saved_model"],
        default="litert",
        help="litert unless set",
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=["fp32", "fp16", "int8"],
        default=["fp32", "fp16", "int8"],
        help="of the weights in LiteRT files; all three unless set",
    )
    parser.add_argument(
        "--dynamic-length",
        action="store_true",
        help="let the file take any length; otherwise it takes the one of "
        "--sequence-length, or of the run, preset or task",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where to write; RUN/exports for models of a run, else exports",
    )
    parser.add_argument(
        "--no-teacher",
        dest="teacher",
        action="store_false",
        help="do not export the run's teacher in int8",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace existing files"
    )


def run(options):
    from kdkit.cli.exporting import export_model

    export_model(options)
