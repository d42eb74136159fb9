"""Continues a text with a decoder, or with its exported file.

MODEL is a run of kdkit pretrain with a decoder, a preset directory, or the
.tflite file of a decoder. The text begins at a document's beginning and ends at
its end, or after --max-tokens more tokens.

example:
  kdkit generate runs/gpt2 --prompt "the company said"
  kdkit generate runs/gpt2/exports/decoder-int8.tflite --sampler top_p \\
      --top-p 0.9 --temperature 0.8 --seed 1 --prompt "the company said"
"""

SAMPLERS = ("greedy", "random", "top_k", "top_p", "beam")


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "--prompt",
        default="",
        metavar="TEXT",
        help="what the text begins with; nothing unless set",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=64,
        metavar="N",
        help="to add at most; 64 unless set",
    )
    parser.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default="greedy",
        help="of keras-hub, with its own settings unless these are set: greedy "
        "unless set; beam for Keras models only",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="for random, top_k and top_p",
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="for top_k")
    parser.add_argument("--top-p", type=float, metavar="P", help="for top_p")
    parser.add_argument("--num-beams", type=int, metavar="N", help="for beam")
    parser.add_argument(
        "--seed", type=int, help="for random, top_k and top_p; 0 unless set"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="where the tokenizer is, for a file outside of a run",
    )


def run(options):
    from kdkit.cli.generating import print_text

    print_text(options)
