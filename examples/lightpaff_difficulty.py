"""How hard BERT's, MASS's and GPT-2's pretraining is: LightPAFF's table 8.

    python examples/lightpaff_difficulty.py --corpus train.en \
        --held-out val.en --vocabulary-size 4000 --num-layers 4

All three read the same text with the same vocabulary. Prints the share of
held-out tokens that each predicts, and the share of the tokens that it sees,
next to the paper's (https://arxiv.org/abs/2004.12817). The share that is seen
is calculated, as in the paper: BERT sees what is not masked, GPT-2 what comes
before, MASS the half that is not masked and what it has written.
Other options, such as `--epochs 5`, go to `kdkit pretrain`.
"""

import argparse
import json
import pathlib
import subprocess

PAPER = {"bert": (0.73, 0.85), "mass": (0.62, 0.75), "gpt2": (0.42, 0.50)}
METRICS = {
    "bert": "masked_accuracy",
    "mass": "token_accuracy",
    "gpt2": "next_token_accuracy",
}
PRESETS = {
    "mass": "lightpaff_mass_6_4_layer",
    "bert": "bert_base_en_uncased",
    "gpt2": "lightpaff_gpt2_4_layer_en",
}


def sizes(family, options):
    """The `--set` options of a model with as many layers in all."""
    values = {
        "hidden_dim": options.hidden_dim,
        "num_heads": options.num_heads,
        "intermediate_dim": 4 * options.hidden_dim,
    }
    if family == "mass":
        half = options.num_layers // 2
        values |= {"encoder_num_layers": half, "decoder_num_layers": half}
    else:
        values["num_layers"] = options.num_layers
    for name, value in values.items():
        yield from ("--set", f"student.{name}={value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--vocabulary-size", required=True)
    parser.add_argument("--num-layers", type=int, default=12)
    parser.add_argument("--num-heads", type=int, default=12)
    parser.add_argument("--hidden-dim", type=int, default=768)
    parser.add_argument("--run-dir", default="runs/difficulty")
    options, others = parser.parse_known_args()
    tokenizer = ["--vocabulary-size", options.vocabulary_size]
    print("| model | accuracy | paper | tokens seen |")
    for family, preset in PRESETS.items():
        run = pathlib.Path(options.run_dir, family)
        words = ["--corpus", options.corpus, "--held-out", options.held_out]
        words += [*tokenizer, "--student", preset, "--run-dir", str(run)]
        words += [*sizes(family, options), *others]
        subprocess.run(["kdkit", "pretrain", *words], check=True)
        log = (run / "metrics.jsonl").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in log]
        *_, end = (one for one in events if one["event"] == "run_finished")
        (best,) = end["best"].values()
        accuracy, seen = PAPER[family]
        found = best["metrics"][METRICS[family]]
        print(f"| {family} | {found:.2f} | {accuracy:.2f} | {seen:.0%} |")
        tokenizer = ["--tokenizer", str(pathlib.Path(options.run_dir, "mass"))]


if __name__ == "__main__":
    main()
