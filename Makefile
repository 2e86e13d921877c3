# Every target sets itself up: .venv is made once and refreshed when the declared versions change.
PYTHON  ?= python3
WORKERS ?= 2

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
SPEC := pyproject.toml constraints.txt

# One thread per process: pytest and the fits bring their own processes.
export OMP_NUM_THREADS      := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS      := 1
export NUMEXPR_NUM_THREADS  := 1
export MPLBACKEND           := Agg

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo reproduce test test-all test-lowest test-newest test-wheel lint bench docs clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## simulate both regimes, learn their laws, judge and draw them (into demo/)
	$(BIN)/python -m paper demo --out demo

reproduce: $(VENV)/.dev ## run the paper's comparison again, shortened to minutes (into results/)
	$(BIN)/python -m paper reproduce

test: $(VENV)/.dev ## run the fast tests and the examples in the docs
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: $(VENV)/.dev ## run every test
	$(BIN)/python -m pytest -n $(WORKERS)

# Other versions of torch bring several gigabytes of CUDA: both targets take the pinned one.
# uv resolves to the lowest declared versions, and all others to those of their time, whose warnings
# about each other are not ours.
test-lowest: ## run the fast tests with the lowest declared versions (in .venv-lowest)
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install -qq uv
	@grep '^torch==' constraints.txt > .venv-lowest/constraints.txt
	@UV_FIND_LINKS="$$PIP_FIND_LINKS" .venv-lowest/bin/uv pip install -q \
	  --python .venv-lowest/bin/python --resolution lowest-direct --exclude-newer 2025-09-01 \
	  --exclude-newer-package torch=2027-01-01 -c .venv-lowest/constraints.txt -e '.[dev,docs,all]'
	.venv-lowest/bin/python -m pytest -n $(WORKERS) -m "not slow" -W ignore::DeprecationWarning

test-newest: ## run the fast tests with the newest versions there are (in .venv-newest)
	@$(PYTHON) -m venv .venv-newest
	@.venv-newest/bin/python -m pip install -qq uv
	@grep '^torch==' constraints.txt > .venv-newest/constraints.txt
	@UV_FIND_LINKS="$$PIP_FIND_LINKS" .venv-newest/bin/uv pip install -q --upgrade \
	  --python .venv-newest/bin/python -c .venv-newest/constraints.txt -e '.[dev,docs,all]'
	.venv-newest/bin/python -m pytest -n $(WORKERS) -m "not slow"

test-wheel: ## build the wheel, install it without extras, and fit a NetCDF file (in .venv-wheel)
	@rm -rf .venv-wheel dist && $(PYTHON) -m venv .venv-wheel
	@$(PYTHON) -m pip wheel -qq --no-deps -w dist .
	@.venv-wheel/bin/python -m pip install -qq dist/*.whl
	cd .venv-wheel && bin/spdelaw simulate heat --paths 20 --modes 2 --out heat.nc --force --quiet \
	  && bin/spdelaw fit heat.nc --modes 2 --out heat.law --force && bin/spdelaw show heat.law

lint: $(VENV)/.dev ## check style, types and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

bench: $(VENV)/.dev ## run the benchmarks of speed; says which limit was met, missed, or not run
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev ## build the documentation (into site/); FAST=1 does not run the code on the pages
	FAST=$(FAST) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(if $(FAST),,--strict) --quiet
	@echo "open site/index.html"

clean: ## remove .venv, site, demo and caches
	rm -rf $(VENV) .venv-lowest .venv-newest .venv-wheel site demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------ set-up

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "spdelaw needs Python 3.11 or newer; '$(PYTHON)' was not found. Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "spdelaw needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }

$(VENV)/.demo: $(SPEC) | $(BIN)/python
	@echo "setting up $(VENV) ..."
	@$(PIP) -e '.[report,zarr]'
	@touch $@

# The development set contains the one of the demo.
$(VENV)/.dev: $(SPEC) | $(BIN)/python
	@echo "setting up $(VENV) for development; the first time takes a few minutes ..."
	@$(PIP) -e '.[dev,docs,all]'
	@touch $(VENV)/.demo $@
