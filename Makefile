# Everything here works on a machine with Python 3.11 or newer, git and make, and never needs root.
#
#   make demo       a cluster of 4 x 8 simulated GPUs on this machine, and workloads queueing on it
#   make test       lint, types, architecture contracts and every test
#   make parts      the real programs that tests run beside us, built once (docs/testing.md)
#
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
WORKERS ?= 2
PINS := requirements/dev.txt
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
# `scheduler` is checked under its own name; `kai_ray/scheduler` is a link to it.
CODE := scheduler kai_ray tests benchmarks

.PHONY: help demo install dev parts lint format types contracts check test test-fast bench reference lock wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(PY):
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with the venv module was found:" \
	  "install one (Debian: apt install python3 python3-venv) or run make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps say which pins an environment was made from, so that a second `make` starts at once.
$(VENV)/.base: $(PINS) pyproject.toml | $(PY)
	$(PIP) install -q "$$(grep '^pip==' $(PINS))"
	$(PIP) install -q -c $(PINS) --build-constraint $(PINS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install -q -c $(PINS) --build-constraint $(PINS) -e '.[ray,agent]' --group dev
	@touch $@

install: $(VENV)/.base ## the environment that `kai` runs in
dev: $(VENV)/.dev ## the same with what tests and checks need

demo: install ## start the embedded cluster, run workloads on it, end with a summary
	@$(VENV)/bin/kai demo

lint: dev ## ruff: rules and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: dev ## ruff: mend what can be mended
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: dev ## pyright: strict for scheduler/ and kai_ray/api/, basic elsewhere
	$(VENV)/bin/pyright

contracts: dev ## import-linter: the layers
	$(VENV)/bin/lint-imports --no-cache

check: lint types contracts ## all of the above

parts: dev ## real programs that tests run (Kubernetes, operators, Ray, Prometheus, Chromium), got once
	$(PY) -m tests.parts.build >/dev/null
	$(PY) -m tests.parts.debian >/dev/null

# Without them, and without CI, tests that need them are skipped by name.
test: check ## everything: this is what CI runs
	@$(MAKE) --no-print-directory parts || { \
	  echo "the tests that need real programs will be skipped" >&2; test -z "$$CI"; }
	$(PY) -m pytest -q -n $(WORKERS) --durations=20

test-fast: dev ## the tests that take no more than a few seconds each and need no built programs
	$(PY) -m pytest -q -n $(WORKERS) -m "not slow and not real"

bench: dev ## the benchmarks, one JSON object a line
	$(PY) -m benchmarks fill --nodes 1000 --jobs 8000 --json
	$(PY) -m benchmarks cli_start --json
	$(PY) -m benchmarks import_time --json

reference: dev ## docs/sdk-reference.md from the docstrings of kai_ray
	$(PY) -m kai_ray.sdk.reference docs/sdk-reference.md

wheel: dev ## dist/*.whl and dist/*.tar.gz
	$(PIP) install -q -c $(PINS) build
	$(PY) -m build

lock: dev ## choose new versions for every pin
	$(PIP) install -q uv
	$(VENV)/bin/uv pip compile --quiet --universal --upgrade --no-header --no-annotate --no-emit-index-url \
	  --python-version 3.11 --extra ray --extra agent --group dev requirements/tools.in pyproject.toml -o $(PINS)

clean: ## remove the environment and every cache
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
