# Every target sets up what it needs; nothing but python3, pip and make is assumed.
PYTHON ?= python3
BIN := .venv/bin
ORACLE := .oracle/bin

.PHONY: demo test test-all lint types bench oracle golden clean

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

# The reference package brings TensorFlow and its own pins, so it lives in an environment of its own.
$(ORACLE)/.installed: tests/oracle/constraints.txt
	$(PYTHON) -m venv .oracle
	$(ORACLE)/python -m pip install --quiet --disable-pip-version-check -c tests/oracle/constraints.txt dm-clrs equinox jaxtyping safetensors
	touch $@

demo: $(BIN)/.installed
	$(BIN)/mechgap demo

test: $(BIN)/.installed
	$(BIN)/python -m pytest -q

test-all: $(BIN)/.installed oracle
	$(BIN)/python -m pytest -q -m ''

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/.installed
	$(BIN)/mypy

bench: $(BIN)/.installed oracle
	taskset -c 0 $(BIN)/python benchmarks/tracing.py

oracle: $(ORACLE)/.installed

golden: oracle
	$(ORACLE)/python tests/oracle/make_golden.py
	$(ORACLE)/python tests/oracle/make_network_golden.py

clean:
	rm -rf .venv .oracle .pytest_cache .mypy_cache .ruff_cache .hypothesis
