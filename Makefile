# `make run` and `make test` set up everything they need in .venv; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN_READY := $(VENV)/.run-ready
PIP := -m pip install --quiet --disable-pip-version-check
# Other versions that `make quick-all` tries, where this machine has them.
PYTHONS ?= 3.12 3.13
# Where it is set, pytest and its plugins would be compiled anew by each run.
unexport PYTHONDONTWRITEBYTECODE

# Three workers on two cores, since tests also wait for servers and disks; a file stays with one worker, and shares what it set up.
WORKERS ?= 3

# The kernel, its two embedded stores and every face on them; no server is started.
QUICK := tests/contract/test_contract.py::TestMemory tests/contract/test_contract.py::TestSQLite \
  $(addprefix tests/unit/test_,model.py codec.py text.py terms.py dates.py sync.py) tests/events/test_event_stores.py \
  tests/agent/test_agent_runs.py tests/chat/test_chat_behaviours.py tests/conversation/test_buffer_memories.py \
  tests/layers/test_layers_memory.py

.PHONY: run quick quick-all test check lint docs screenshots bench torture lock clean

$(READY): requirements.lock pyproject.toml
	@echo "octavo: setting up $(VENV) with the versions of requirements.lock; once, about a minute"
	@start=$$(date +%s) \
	  && $(PYTHON) -m venv $(VENV) \
	  && $(BIN)/python $(PIP) -r requirements.lock \
	  && $(BIN)/python $(PIP) --no-deps -e . \
	  && touch $(READY) $(RUN_READY) \
	  && echo "octavo: set up in $$(($$(date +%s) - start)) s"

# A tenth of the above: only what the server runs with, in the same place, to which the first `make test` adds the rest.
$(RUN_READY): requirements-run.lock pyproject.toml
	@echo "octavo: setting up $(VENV) with the versions of requirements-run.lock; once, some seconds"
	@start=$$(date +%s) \
	  && $(PYTHON) -m venv $(VENV) \
	  && $(BIN)/python $(PIP) -r requirements-run.lock \
	  && $(BIN)/python $(PIP) --no-deps -e . \
	  && touch $(RUN_READY) \
	  && echo "octavo: set up in $$(($$(date +%s) - start)) s"

run: $(RUN_READY)
	@$(BIN)/octavo serve --sample $${PORT:+--port $$PORT}

quick: $(READY)
	@$(BIN)/python -m pytest --quick -n 2 --dist loadscope -q $(QUICK)

# The same on other Pythons, each in a .venv of its own with what these tests need.
quick-all: quick
	@for version in $(PYTHONS); do \
	  python=; venv=.venv-$$version; \
	  for each in python$$version $$HOME/.pyenv/versions/$$version.*/bin/python$$version; do \
	    if $$each -c '' 2> /dev/null; then python=$$each; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then echo "octavo: NOT TESTED on Python $$version: there is none on this machine"; continue; fi; \
	  if [ ! $$venv/.ready -nt requirements.lock ] || [ ! $$venv/.ready -nt pyproject.toml ]; then \
	    echo "octavo: setting up $$venv; once, some seconds"; \
	    $$python -m venv $$venv \
	      && $$venv/bin/python $(PIP) -c requirements.lock -e '.[server,redis,sqlalchemy,testing]' \
	        aiosqlite pytest-asyncio pytest-timeout pytest-xdist \
	      && touch $$venv/.ready || exit 1; \
	  fi; \
	  echo "octavo: the quick tests on Python $$version"; \
	  $$venv/bin/python -m pytest --quick -n 2 --dist loadscope -q $(QUICK) || exit 1; \
	done

test: $(READY)
	@echo "octavo: all tests on $(WORKERS) workers, with private PostgreSQL, MariaDB, Redis, nginx and Caddy servers and clusters; about a quarter of an hour"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	@$(BIN)/lint-imports

check: lint test quick-all

# What is made from the code, in docs/reference; all other pages are written by hand.
docs: $(READY)
	@$(BIN)/python tools/reference.py

# The pictures of docs/console.md, by a real browser.
screenshots: $(READY)
	@OCTAVO_SCREENSHOTS=1 $(BIN)/python -m pytest -q tests/console/test_console_browser.py

bench: $(READY)
	@$(BIN)/python -m bench

# TESTS=tests/clusters/test_postgres_cluster.py is one cluster alone, in 45 minutes at most; OCTAVO_FAULTS=5 asks for fewer faults than 20.
torture: $(READY)
	@OCTAVO_TORTURE=full $(BIN)/python -m pytest -q -m torture $(TESTS)

lock: $(READY)
	@$(BIN)/python -m pip install --quiet --upgrade -e '.[dev]'
	@$(BIN)/python -m pip freeze --exclude-editable > requirements.lock
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python $(PIP) -c requirements.lock '.[server]'
	@.venv-lock/bin/python -m pip freeze --exclude octavo > requirements-run.lock

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .hypothesis
