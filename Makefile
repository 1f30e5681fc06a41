# Every target makes its own .venv when there is none; a change of pyproject.toml installs again.
VENV ?= .venv
# The first Python on PATH that is new enough, so that `make demo` works where `python3` is an older one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done; true)
BIN := $(VENV)/bin
# The tests mostly wait for processes, so two workers pay off even on a small machine.
WORKERS ?= $(shell $(BIN)/python -c 'import os; print(max(2, (os.cpu_count() or 2) // 2))')

.PHONY: demo test lint bench clean

demo: $(VENV)/.demo
	@$(BIN)/eagle3-console demo

test: lint
	@$(BIN)/python -m pytest -n $(WORKERS) -q

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@report=$$($(BIN)/lint-imports --no-cache 2>&1) || { echo "$$report"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/vermin --quiet --no-tips --target=3.9- --violations console/agent

bench: $(VENV)/.dev
	@$(BIN)/python -m pytest tests/bench -o python_files='bench_*.py' -q -s

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing the console into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing the console and its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,pipeline,dev]'
	@touch $(VENV)/.demo $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	echo "No Python 3.11 or newer was found on PATH: install one, or name it with 'make PYTHON=/path/to/python3 ...'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "$(PYTHON) is older than Python 3.11, which the console needs: name a newer one with 'make PYTHON=/path/to/python3 ...'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
