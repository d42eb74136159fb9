"""Models with noise on their weights: LightPAFF's figure 2, section 6.2.

    python examples/lightpaff_noise.py runs/small/student runs/control/student \
        --task sst2 --data-dir glue

MODEL is a preset directory, and other options go to `kdkit evaluate`. Every
weight matrix gets Gaussian noise of standard deviation σ times its mean, as in
the paper (https://arxiv.org/abs/2004.12817), or with `--scale mean_magnitude`
times the mean magnitude of its entries, which does not vanish where signs
cancel. Prints the mean over three seeds for each σ.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile

import keras_hub
import matplotlib.pyplot as plt
import numpy as np

SEEDS = (0, 1, 2)
SIGMAS = {
    "mean": (0, 5, 10, 20, 40, 80),
    "mean_magnitude": (0, 0.2, 0.4, 0.6, 0.8, 1),
}


def add_noise(model, sigma, seed, scale):
    """Adds noise to kernels and embeddings; attention's biases are 2-D too."""
    for number, matrix in enumerate(model.trainable_weights):
        values = matrix.numpy()
        if values.ndim < 2 or matrix.name == "bias":
            continue
        size = np.abs(values) if scale == "mean_magnitude" else values
        draws = np.random.default_rng([seed, number]).normal(size=values.shape)
        matrix.assign(values + sigma * size.mean() * draws)


def first_metric(path, options):
    command = ["kdkit", "evaluate", path, *options]
    lines = subprocess.check_output(command).splitlines()
    return next(iter(json.loads(lines[-1])["metrics"].items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kind", default="TextClassifier", help="or CausalLM")
    parser.add_argument("--scale", choices=SIGMAS, default="mean")
    parser.add_argument("--curves", default="noise.svg")
    options, evaluation = parser.parse_known_args()
    kind = getattr(keras_hub.models, options.kind)
    sigmas = SIGMAS[options.scale]
    for path in options.models:
        means = []
        for sigma in sigmas:
            values = []
            for seed in SEEDS if sigma else SEEDS[:1]:
                with tempfile.TemporaryDirectory() as folder:
                    noisy = shutil.copytree(path, f"{folder}/m")
                    model = kind.from_preset(noisy)
                    add_noise(model, sigma, seed, options.scale)
                    model.save_to_preset(noisy)
                    metric, value = first_metric(noisy, evaluation)
                values.append(value)
            means.append(statistics.fmean(values))
            print(f"{path} σ={sigma:g}: {metric} {means[-1]:.4f}", flush=True)
        plt.plot(sigmas, means, marker="o", label=path)
    plt.xlabel(f"σ × {options.scale} of a matrix")
    plt.ylabel(metric)
    plt.legend()
    plt.savefig(options.curves)


if __name__ == "__main__":
    main()
