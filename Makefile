# Every target sets up what it needs; nothing but python3, pip and make is assumed.
PYTHON ?= python3
BIN := .venv/bin
ORACLE := .oracle/bin
LENS := .tl/bin
HAS_PLAYWRIGHT := $(BIN)/python -c 'import playwright' 2>/dev/null
HAS_CHROMIUM := { test -n "$$MECHGAP_BROWSER" || command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
PATIENCE := -o Acquire::http::Timeout=20 -o Acquire::Retries=1

.PHONY: demo test test-all browser test-browser lint types bench oracle tl golden clean

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

# The reference package brings TensorFlow and its own pins, so it lives in an environment of its own.
$(ORACLE)/.installed: tests/oracle/constraints.txt
	$(PYTHON) -m venv .oracle
	$(ORACLE)/python -m pip install --quiet --disable-pip-version-check -c tests/oracle/constraints.txt dm-clrs equinox jaxtyping safetensors
	touch $@

# TransformerLens brings torch, so it has one of its own, too.
$(LENS)/.installed: pyproject.toml constraints.txt tests/tl/constraints.txt
	$(PYTHON) -m venv .tl
	$(LENS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -c tests/tl/constraints.txt -e '.[tl]'
	touch $@

demo: $(BIN)/.installed
	$(BIN)/mechgap demo

# Two at a time: compiling, which most of the time goes into, uses one core. A file's tests share what they compile.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(BIN)/.installed
	$(PYTEST)

# The pages in Debian's chromium, through playwright. What is missing is installed where that can be done; where it
# cannot, the tests are skipped, and that is said last, where it is seen.
browser: $(BIN)/.installed
	@$(HAS_PLAYWRIGHT) || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]' || true
	@$(HAS_CHROMIUM) || test "$$(id -u)" != 0 || { apt-get update -qq $(PATIENCE) && apt-get install -yqq $(PATIENCE) chromium; } || true

BROWSER_SKIPPED := { $(HAS_PLAYWRIGHT) && $(HAS_CHROMIUM); } || echo "WARNING: THE BROWSER TESTS WERE SKIPPED. They need" \
  "playwright (pip install 'mechgap[browser]') and chromium, which MECHGAP_BROWSER may name." >&2

test-browser: browser
	$(BIN)/python -m pytest -q -m browser tests/test_*_browser.py
	@$(BROWSER_SKIPPED)

# The default tests, compiled quickly; then all others, most of them compiled as users do, which takes several times as
# long (tests/conftest.py says which are not). Some take minutes and share nothing, so that whole files would leave one
# worker idle.
test-all: $(BIN)/.installed oracle tl browser
	$(PYTEST) --hypothesis-profile thorough
	$(PYTEST) --dist worksteal --hypothesis-profile thorough -m 'slow or browser'
	@$(BROWSER_SKIPPED)

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/.installed
	$(BIN)/mypy

bench: $(BIN)/.installed oracle
	taskset -c 0 $(BIN)/python benchmarks/tracing.py

oracle: $(ORACLE)/.installed

tl: $(LENS)/.installed

golden: oracle
	$(ORACLE)/python tests/oracle/make_golden.py
	$(ORACLE)/python tests/oracle/make_network_golden.py
	$(ORACLE)/python tests/oracle/make_text_golden.py

clean:
	rm -rf .venv .oracle .tl .pytest_cache .mypy_cache .ruff_cache .hypothesis
