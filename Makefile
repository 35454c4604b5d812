# Needs python3 and make; everything else is installed into .venv and .tools on first use.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# A `uv` that is on PATH may be a pyenv shim that does not run here: it counts only if it answers.
UV_VERSION := 0.13.7
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/bin/uv)
UV_WHEN_MISSING := $(filter .tools/bin/uv,$(UV))
PYTHONS := >=3.12,<3.15

BIN := .venv/bin
READY := .venv/.ready
DOCS_BIN := .tools/docs/bin
DOCS_READY := .tools/docs/.ready
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.12 --custom-compile-command "make pins"

# Trust what the machine trusts: many networks have a certificate authority of their own.
export UV_SYSTEM_CERTS ?= true
export UV_HTTP_TIMEOUT ?= 180

# Settings of the caller's shell must not reach into the environments made here.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

.PHONY: help setup demo test test-all lint fix bench docs reference pins clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything that development needs

demo: $(READY) ## show what icestream does, in a temporary directory
	@$(BIN)/python examples/demo.py

test: lint ## check style, types and layers, then run the tests
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

test-all: lint ## the same with the slow tests
	$(BIN)/pytest -n 2 --dist loadfile

lint: $(READY) ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: $(READY) ## mend style where a tool can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY) ## measure, with icechunk beside it
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.array_source
	$(BIN)/python -m benchmarks.transform_operations

docs: $(DOCS_READY) ## build the documentation into docs/_build/html
	$(DOCS_BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

reference: $(READY) ## rewrite the pages of docs/reference that come from the code
	$(BIN)/python -m scripts.reference_pages

pins: | $(UV_WHEN_MISSING) ## compile requirements/*.in; PIN_FLAGS=--upgrade takes newer versions
	$(COMPILE) $(PIN_FLAGS) requirements/test.in -o requirements/test.txt
	$(COMPILE) $(PIN_FLAGS) requirements/core.in -c requirements/test.txt -o requirements/core.txt
	$(COMPILE) $(PIN_FLAGS) requirements/docs.in -o requirements/docs.txt

clean: ## remove everything that make has installed or built
	rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .import_linter_cache docs/_build

.tools/bin/uv:
	python3 -m venv .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(READY): requirements/test.txt pyproject.toml | $(UV_WHEN_MISSING)
	@$(BIN)/python -c '' 2>/dev/null || $(call new_environment,.venv)
	$(UV) pip sync --python $(BIN)/python --compile-bytecode requirements/test.txt
	$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS_READY): requirements/docs.txt | $(UV_WHEN_MISSING)
	@$(DOCS_BIN)/python -c '' 2>/dev/null || $(call new_environment,.tools/docs)
	$(UV) pip sync --python $(DOCS_BIN)/python requirements/docs.txt
	@touch $@

# The first line of .python-version where uv finds or downloads it, else any version that will do.
new_environment = $(UV) venv --clear $1 || $(UV) venv --clear --python "$(PYTHONS)" $1
