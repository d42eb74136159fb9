# make demo, make test: each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
# PyPI's PyTorch for Linux brings CUDA; this index, where it can be reached, has the build for CPUs.
TORCH := --retries 0 --timeout 10 torch==2.13.0 --extra-index-url https://download.pytorch.org/whl/cpu
# As many cores as there are, while memory lasts, in the order of tests/conftest.py.
PYTEST := python -m pytest --numprocesses logical --maxprocesses 4 \
    --dist loadfile --no-loadscope-reorder $(if $(RANDOM_ORDER),-p randomly)
GUIDES := $(notdir $(basename $(wildcard docs/guides/*.ipynb)))
export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL := 2
export NO_MKDOCS_2_WARNING := 1

.PHONY: help demo test goldens test-jax test-torch test-oldest test-large quality style wheel docs docs-serve guides clean
help:  ## show this
	@grep -hE '^[a-z -]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 22
# An extra's packages are newest when its file is newer than setup.py. uv is quicker, where it is.
$(VENV)/.%: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip $(if $(filter references,$*),$(TORCH))
	uv pip install --quiet --python $(BIN)/python --editable ".[$*]" 2>/dev/null || \
	    $(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@
$(VENV)/.references $(VENV)/.docs $(VENV)/.guides: $(VENV)/.dev
demo: $(VENV)/.dev  ## teacher, student, int8 file and report in minutes
	$(BIN)/kdkit demo --run-dir runs/demo
test: $(VENV)/.references  ## the tests, once each in its quickest way
	$(BIN)/$(PYTEST)
test-large: $(VENV)/.references  ## all tests: further devices, families, real data
	$(BIN)/$(PYTEST) --run-large
test-torch: $(VENV)/.references
test-jax test-torch: $(VENV)/.dev  ## the tests for every backend
	KERAS_BACKEND=$(@:test-%=%) $(BIN)/$(PYTEST) @tests/every_backend.txt
test-oldest:  ## the tests with the oldest versions that setup.py allows
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[tests]" --constraint tests/oldest.txt
	$(VENV)-oldest/bin/$(PYTEST)
goldens: $(VENV)/.references  ## new goldens: see tests/goldens/README.md
	KDKIT_GOLDENS=freeze $(BIN)/$(PYTEST) -k golden
quality: $(VENV)/.dev  ## what CI checks before the tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
style: $(VENV)/.dev  ## fix what ruff can fix
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
wheel:  ## the wheel, built and tried in an empty environment
	.ci/wheel $(PYTHON)
docs docs-serve guides: export PATH := $(BIN):$(PATH)
docs docs-serve: $(VENV)/.docs  ## the site in site/, or at http://127.0.0.1:8000
	mkdocs $(if $(filter docs,$@),build --strict,serve)
guides: $(VENV)/.guides  ## run the guides, or GUIDES="NAME ...", for docs/guides/
	cd $$(mktemp -d) && export PYTHONWARNINGS="ignore:IProgress not found" && for name in $(GUIDES); do \
	    jupytext --to ipynb --set-kernel python3 --output - $(CURDIR)/examples/$$name.py | \
	    jupyter nbconvert --stdin --to notebook --execute --CoalesceStreamsPreprocessor.enabled=True \
	    --NotebookExporter.preprocessors=nbconvert.preprocessors.CoalesceStreamsPreprocessor \
	    --ExecutePreprocessor.record_timing=False \
	    --ExecutePreprocessor.extra_arguments=--IPKernelApp.capture_fd_output=False \
	    --ExecutePreprocessor.extra_arguments="--IPKernelApp.exec_lines=import tensorflow; tensorflow.get_logger().setLevel('ERROR')" \
	    --output-dir $(CURDIR)/docs/guides --output $$name || exit 1; done
clean:  ## remove the environment and caches, not the runs
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache
