"""Writes a model as verified LiteRT (.tflite) or ONNX files, or a SavedModel.

kdkit compares each file with the Keras model on real rows of the task
(generated ones for a model without a known task) before the file gets its name;
a file that differs is not written. For models of a run, kdkit also measures
accuracy on dev and notes it in the run. With the format litert, a run's teacher
is exported too, once, in int8, to RUN/exports/teacher, so that the report
separates what distillation gained from what quantisation gained. Models that
have collapsed, or whose head was never trained, are reported.

A LiteRT file of a decoder reads one token at a time, up to --sequence-length
tokens; kdkit compares it with the Keras model on text that the run held out. A
LiteRT file of an encoder-decoder reads a source (signature `encode`) and writes
token by token (`decode`), up to --sequence-length tokens on either side. Other
formats hold decoders that read whole sequences, and no encoder-decoders.

ONNX needs: pip install 'kdkit[onnx]'. ONNX files take any length.

example:
  kdkit export runs/tinybert --precision fp32 int8 --sequence-length 64
  kdkit export runs/tinybert --format onnx --precision fp32 int8
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
        default="litert",
        help="litert, onnx, saved_model, or one of your own; default: litert",
    )
    parser.add_argument(
        "--precision",
        nargs="+",
        metavar="P",
        help="of the weights: fp32, fp16 or int8; default: all that the format "
        "has",
    )
    parser.add_argument(
        "--dynamic-length",
        action="store_true",
        help="let a LiteRT file take any length; by default it takes the one "
        "of --sequence-length, or of the run, preset or task",
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
