# make demo, make test: each sets up what it needs.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Packages are newest when this file is newer than setup.py.
READY := $(VENV)/.ready
# The extra "references" is installed when this file is newer than setup.py.
REFERENCES := $(VENV)/.references
# The extra "docs" is installed when this file is newer than setup.py.
DOCS := $(VENV)/.docs
# PyPI's PyTorch for Linux brings CUDA; this index has the build for CPUs. Where
# the index cannot be reached, pip uses the ones that it is configured with.
TORCH := --retries 0 --timeout 10 torch==2.13.0 \
    --extra-index-url https://download.pytorch.org/whl/cpu
# The tests that run on every backend.
ON_EVERY_BACKEND := tests/losses tests/test_layer_maps.py tests/test_projections.py \
    tests/test_objectives.py tests/test_backends.py tests/test_distiller.py \
    tests/test_taps.py tests/test_taps_refusals.py tests/test_taps_endings.py \
    tests/test_distiller_contradictions.py tests/test_logged_losses.py \
    tests/test_distiller_features.py tests/test_distiller_refusals.py \
    tests/test_distiller_saving.py tests/test_several_teachers.py \
    tests/test_label_weights.py tests/test_chunked_logits.py \
    tests/test_epoch_means.py tests/test_padded_logits.py \
    tests/test_any_model.py tests/test_foreign_losses.py \
    tests/models/test_families.py
# What `kdkit report RUN... --keep` wrote; the runs in the README's picture.
RECORDS := docs/measured/runs.jsonl
IN_PICTURE := sst2_tinybert_whole sst2_pkd_seed0 sst2_bilstm_seed0
# Files of tests on as many cores as there are, while memory lasts, in the order
# of tests/conftest.py.
SIDE_BY_SIDE := --numprocesses logical --maxprocesses 4 --dist loadfile \
    --no-loadscope-reorder
export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL := 2
# The theme prints a page of its plans otherwise.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help install demo test contract contract-freeze test-jax test-torch test-oldest test-large quality style wheel docs docs-serve results guides clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 14

install: $(READY)  ## virtual environment with kdkit, tests and tools

$(READY): setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(REFERENCES): $(READY)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable ".[dev,references]"
	touch $@

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

demo: $(READY)  ## teacher, student, int8 file and report in minutes
	$(BIN)/kdkit demo --run-dir runs/demo

test: $(REFERENCES)  ## the tests, once each in its quickest way
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --ignore tests/contract

contract: $(READY)  ## short runs of each kind against tests/contract/goldens
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/contract

contract-freeze: $(READY)  ## new goldens: see tests/contract/goldens/README.md
	$(BIN)/python -m tests.contract.freeze

test-jax: $(READY)  ## the tests for every backend on JAX
	KERAS_BACKEND=jax $(BIN)/python -m pytest $(SIDE_BY_SIDE) \
	    $(ON_EVERY_BACKEND)

test-torch: $(REFERENCES)  ## the tests for every backend on PyTorch
	KERAS_BACKEND=torch $(BIN)/python -m pytest $(ON_EVERY_BACKEND)

test-oldest:  ## the tests with the oldest versions that setup.py allows
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[tests]" \
	    --constraint tests/oldest.txt
	$(VENV)-oldest/bin/python -m pytest $(SIDE_BY_SIDE) \
	    --ignore tests/contract

test-large: $(REFERENCES)  ## all tests: further devices, families, real data
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --run-large \
	    --ignore tests/contract

quality: $(READY)  ## what CI checks before the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

style: $(READY)  ## fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel:  ## the wheel, built and tried in an empty environment
	.ci/wheel $(PYTHON)

docs: $(DOCS)  ## the site in site/, without a broken link or reference
	$(BIN)/mkdocs build --strict

docs-serve: $(DOCS)  ## the site while you write, at http://127.0.0.1:8000
	$(BIN)/mkdocs serve

results: $(READY)  ## docs/measured/results.md and the README's picture
	$(BIN)/kdkit report $(RECORDS) --markdown docs/measured/results.md
	$(BIN)/kdkit report $(RECORDS) --only $(IN_PICTURE) \
	    --trade-off docs/measured/sst2_students.svg

guides: $(READY)  ## run guides/*.py and write docs/guides/
	$(BIN)/python -m pip install --quiet --editable ".[dev,guides]"
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python guides/render.py

clean:  ## remove the environment and caches, not the runs
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
