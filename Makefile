# `make run` and `make test` set up everything they need in .venv; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two workers: the suite is built for two cores and gives each worker its own databases.
WORKERS ?= 2

.PHONY: run test check lint bench torture lock clean

$(READY): requirements.lock pyproject.toml
	@echo "setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $(READY)

run: $(READY)
	@$(BIN)/python examples/first_memory.py

test: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint test

bench: $(READY)
	@$(BIN)/python -m bench

torture: $(READY)
	@OCTAVO_TORTURE=full $(BIN)/python -m pytest -q -m torture

lock: $(READY)
	@$(BIN)/python -m pip install --quiet --upgrade -e '.[dev]'
	@$(BIN)/python -m pip freeze --exclude-editable > requirements.lock

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .hypothesis
