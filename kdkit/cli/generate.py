"""Continues a text with a decoder, or writes one of another.

MODEL is a run of kdkit pretrain with a decoder, a preset directory, or the
.tflite file of a decoder. The text begins at a document's beginning and ends at
its end, or after --max-tokens more tokens. An encoder-decoder writes what its
pairs were: a translation, a summary. It writes of --prompt, or of each line of
--input a line of --output, going on where it was stopped. The beams of a
teacher are what sequence-level distillation (Kim and Rush, 2016) learns from,
by kdkit pretrain --pairs; --kept-input leaves out lines that it writes nothing
of.

example:
  kdkit generate runs/gpt2 --prompt "the company said"
  kdkit generate runs/gpt2/exports/decoder-int8.tflite --sampler top_p \\
      --top-p 0.9 --temperature 0.8 --seed 1 --prompt "the company said"
  kdkit generate runs/en_de --sampler beam --num-beams 5 --prompt "Two dogs."
  kdkit generate runs/en_de --sampler beam --input train.en \\
      --output written.de --kept-input written.en
"""

from kdkit.cli import options as shared

SAMPLERS = ("greedy", "random", "top_k", "top_p", "beam")


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "--prompt",
        default="",
        metavar="TEXT",
        help="what the text begins with; nothing unless set. Of an "
        "encoder-decoder, what it writes of",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="to add at most; 64 unless set. Of an encoder-decoder, to read "
        "and to write at most; as many as in its run unless set",
    )
    parser.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default="greedy",
        help="of keras-hub, with its own settings unless these are set: greedy "
        "unless set; beam for Keras models, and for files of encoder-decoders",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="for random, top_k and top_p",
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="for top_k")
    parser.add_argument("--top-p", type=float, metavar="P", help="for top_p")
    shared.add_beams(parser)
    parser.add_argument(
        "--languages",
        nargs="+",
        metavar="NAME",
        help="for encoder-decoders: the one that is read and the one that is "
        "written; those of the run unless set",
    )
    parser.add_argument(
        "--input",
        metavar="FILE",
        help="for encoder-decoders: texts to write of, one a line",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="for --input: where what is written goes, one text a line",
    )
    parser.add_argument(
        "--kept-input",
        metavar="FILE",
        help="for --input: a file for its lines that --output has a text for; "
        "those that nothing was written of are in neither, and the two files "
        "are the --pairs of kdkit pretrain",
    )
    parser.add_argument(
        "--seed",
        type=shared.a_seed,
        help="for random, top_k and top_p; 0 unless set",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="where the tokenizer is, for a file outside of a run",
    )


def run(options):
    from kdkit.cli.generating import print_text

    print_text(options)
