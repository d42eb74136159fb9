"""Measures the latency of LiteRT and ONNX files on this machine.

Several files are measured in turn in one process, so that their ratios
hold. RUN means its exported files, the fp32 files of its teacher's run and
the teacher's int8 file that kdkit export wrote. The last line is a JSON object
with a result for each. Results for files of a run are noted in it. Of a
decoder's file the time is that of one token, of an encoder-decoder's that of
one sentence, read and written (25 tokens unless --sequence-length says it).

example:
  kdkit benchmark runs/tinybert
  kdkit benchmark runs/teacher/exports/*.tflite runs/tinybert/exports/*.tflite
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE|RUN")
    parser.add_argument(
        "--sequence-length",
        type=shared.a_length,
        metavar="N",
        help="for files that take any length, 128 unless set; of a sentence "
        "of an encoder-decoder, 25 unless set",
    )
    parser.add_argument(
        "--batch-size", type=int, default=1, help="1 unless set"
    )
    parser.add_argument("--threads", type=int, default=1, help="1 unless set")
    parser.add_argument(
        "--runs", type=int, default=50, help="timed runs a file; 50 unless set"
    )
    parser.add_argument(
        "--warmup",
        type=int,
        default=5,
        help="runs before that are not timed; 5 unless set",
    )


def run(options):
    from kdkit.cli.measuring import benchmark_files

    benchmark_files(options)
