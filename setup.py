"""Packaging of kdkit. Tools are configured in pyproject.toml."""

import pathlib

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = {}
exec((HERE / "kdkit" / "version.py").read_text(), VERSION)

INSTALL_REQUIRES = [
    "keras>=3.15",  # models, training loop, LiteRT export
    "tensorflow>=2.20",  # backend, tf.data, SavedModel
    "keras-hub>=0.32",  # BERT and its tokenisers
    # Word pieces in SavedModels. Windows has no such package.
    "tensorflow-text>=2.20.1; sys_platform != 'win32'",
    "tensorboard>=2.20",  # curves of every objective
    "ai-edge-litert>=2.1",  # the interpreter that phones run
    "flatbuffers>=24",  # the format of its files
    "safetensors>=0.4",  # Hugging Face checkpoints as teachers
    "numpy>=1.26",
    "scikit-learn>=1.5",  # accuracy, F1, Matthews correlation
    "scipy>=1.13",  # Pearson and Spearman correlation
    "tokenizers>=0.21",  # ids of all texts; trains vocabularies
    "sentencepiece>=0.2.1",  # the files of ALBERT and XLM-RoBERTa
    "sacrebleu>=2.4",  # BLEU and chrF of translations, with signatures
    "pyarrow>=16",  # Parquet tables, saved datasets, mapped caches
    "ml-dtypes>=0.4",  # bfloat16 in NumPy; Keras has it too
    "matplotlib>=3.9",  # pictures of the report
    "filelock>=3.30",  # locks on Linux, macOS and Windows
    "rich>=13.7",  # tables, messages and progress in the terminal
    "jinja2>=3.1",  # the page of the report, with every text escaped
    "pydantic>=2.11",  # types and ranges of settings, all mistakes at once
    "psutil>=5.9",  # how much memory there is
]
# kdkit/data/tfds.py and kdkit/tasks/metrics.py check these versions.
TFDS_REQUIRE = [
    "tensorflow-datasets>=4.9",  # GLUE for those without a local copy
    "importlib-resources>=6",  # TensorFlow Datasets imports it undeclared
]
TAGGING_REQUIRE = ["seqeval>=1.2"]  # F1 of tagged spans
# kdkit/export/quantization.py checks this version. Optional, because the
# precisions that kdkit writes by default need only the converter.
QUANTIZATION_REQUIRE = [
    "ai-edge-quantizer>=0.10",  # static int8, int8 x int16 and int4 files
]
TESTS_REQUIRE = [
    *TFDS_REQUIRE,
    *TAGGING_REQUIRE,
    *QUANTIZATION_REQUIRE,
    "pytest>=8.2",  # reads names of files from a file
    "hypothesis>=6.130",  # properties that hold for drawn examples
    "jsonschema>=4.23",  # configs against the schema of kdkit init
    "pandas>=2.2",  # columns and data frames that users pass
    "mediapipe>=0.10.30",  # opens LiteRT files as an Android app does
    "pytest-xdist>=3.6",  # test files side by side on two cores
    "pytest-randomly>=3.16",  # make test RANDOM_ORDER=1
    "jax>=0.6",  # the contract tests on a second backend (make test-jax)
    "coverage>=7.6",  # which tests execute a line, for tests/faults.py
]
TOOLS_REQUIRE = ["ruff==0.17.5"]
# make guides runs examples/*.py as notebooks with them.
GUIDES_REQUIRE = [
    "jupytext>=1.16",  # a notebook from a Python file
    "nbconvert>=7.17",  # runs it
    "ipykernel>=6.29",  # the kernel that runs Python
    "mediapipe>=0.10.30",  # a guide opens a file as an Android app does
]
# kdkit/export/onnx.py checks these versions before it writes or opens a file.
ONNX_REQUIRE = [
    "onnxruntime>=1.20",  # runs ONNX files and quantises their weights
    "tf2onnx>=1.17",  # Keras writes ONNX files with it
    "onnx>=1.17",  # reads and writes the format; tf2onnx brings it
]
# make docs builds the site with them.
DOCS_REQUIRE = [
    "mkdocs>=1.6,<2",  # pages of Markdown to a site; 2 has no plugins
    "mkdocs-material>=9.6",  # the theme, with search and no outside files
    "mkdocstrings[python]>=1",  # the reference from docstrings
    "mkdocs-include-markdown-plugin>=7",  # CHANGELOG.md and others as pages
    "markdown-exec>=1.12",  # what kdkit prints, in pages
    "nbconvert>=7.17",  # the notebooks of guides to Markdown
    "latex2mathml>=3.77",  # formulas without a script in the page
]
# They define the right answer in tests, and the loop of benchmarks.
REFERENCES_REQUIRE = [
    *ONNX_REQUIRE,
    "torch>=2.6",  # runs the models of transformers
    "transformers>=5",  # tokenizers and models that checkpoints come from
    "sentence-transformers>=6",  # the vectors of embedders
]

setup(
    name="kdkit",
    version=VERSION["__version__"],
    description="Make BERT-like transformers small with Keras: distil, "
    "measure, ship.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["kdkit", "kdkit.*"]),
    package_data={"kdkit.reporting": ["*.jinja", "*.mplstyle"]},
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "tests": TESTS_REQUIRE,
        "tools": TOOLS_REQUIRE,
        "onnx": ONNX_REQUIRE,
        "quantization": QUANTIZATION_REQUIRE,
        "tfds": TFDS_REQUIRE,
        "tagging": TAGGING_REQUIRE,
        "references": REFERENCES_REQUIRE,
        "docs": DOCS_REQUIRE,
        "guides": GUIDES_REQUIRE,
        "dev": TESTS_REQUIRE + TOOLS_REQUIRE,
    },
    entry_points={"console_scripts": ["kdkit = kdkit.cli.main:main"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
