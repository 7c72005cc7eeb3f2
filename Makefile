# make test | test-slow | fuzz | docs | demo | bench | clean. Needs python3.11 and make, nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
PADDLE := paddlepaddle==3.3.1
# Two test processes with one thread each beat one process with two.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: test test-slow fuzz check docs demo bench clean

# torch comes first, so that nothing else brings another build of it.
$(VENV)/ready: setup.py Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade setuptools wheel
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet $(PADDLE)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/ready
	$(PYTEST) -m slow

# A million damaged files, some twenty minutes.
fuzz: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --inputs 1000000

docs: $(VENV)/ready
	$(BIN)/python docs/reference.py

demo: $(VENV)/ready
	$(BIN)/optrace demo

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
