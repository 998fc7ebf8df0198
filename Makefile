# `make run` and `make test` set up everything they need in .venv; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Three workers on two cores, since tests also wait for servers and disks; a file stays with one worker, and shares what it set up.
WORKERS ?= 3

# The kernel, its two embedded stores and every face on them; no server is started.
QUICK := tests/contract/test_contract.py::TestMemory tests/contract/test_contract.py::TestSQLite \
  $(addprefix tests/unit/test_,model.py codec.py text.py terms.py dates.py sync.py) tests/events/test_event_stores.py \
  tests/agent/test_agent_runs.py tests/chat/test_chat_behaviours.py tests/conversation/test_buffer_memories.py \
  tests/layers/test_layers_memory.py

.PHONY: run quick test check lint docs bench torture lock clean

$(READY): requirements.lock pyproject.toml
	@echo "octavo: setting up $(VENV) with the versions of requirements.lock; once, about a minute"
	@start=$$(date +%s) \
	  && $(PYTHON) -m venv $(VENV) \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . \
	  && touch $(READY) \
	  && echo "octavo: set up in $$(($$(date +%s) - start)) s"

run: $(READY)
	@$(BIN)/octavo serve --sample

quick: $(READY)
	@$(BIN)/python -m pytest --quick -n 2 --dist loadscope -q $(QUICK)

test: $(READY)
	@echo "octavo: all tests on $(WORKERS) workers, with private PostgreSQL, MariaDB, Redis, nginx and Caddy servers; about a quarter of an hour"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	@$(BIN)/lint-imports

check: lint test

# What is made from the code, in docs/reference; all other pages are written by hand.
docs: $(READY)
	@$(BIN)/python tools/reference.py

bench: $(READY)
	@$(BIN)/python -m bench

torture: $(READY)
	@OCTAVO_TORTURE=full $(BIN)/python -m pytest -q -m torture

lock: $(READY)
	@$(BIN)/python -m pip install --quiet --upgrade -e '.[dev]'
	@$(BIN)/python -m pip freeze --exclude-editable > requirements.lock

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .hypothesis
