# Two commands do all the set-up: `make demo` runs the main job, `make test` everything CI runs.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint nightly bench docs wheel-test timing-docs tables clean

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.run: requirements.txt pyproject.toml setup.py tools/make_venv.sh
	@bash tools/make_venv.sh "$(VENV)" requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	@bash tools/make_venv.sh "$(VENV)" requirements-dev.txt
	touch $@

demo: $(VENV)/.run  ## Declare, schedule, generate, compile with pyasc, run on the simulator, check against torch
	@$(BIN)/python -m asc_sched.demo

test: lint  ## Lint and the whole test suite
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not nightly"

lint: $(VENV)/.dev  ## ruff and mypy
	@$(BIN)/ruff check .
	$(BIN)/mypy

nightly: $(VENV)/.dev  ## The long runs: all examples, all fuzz
	@$(BIN)/python -m pytest -m "nightly or not nightly" -n 2 --dist loadfile --timeout 3600

bench: $(VENV)/.dev  ## Every benchmark, one after the other
	@for b in benchmarks/*.py; do echo "== $$b"; $(BIN)/python $$b; done

timing-docs: $(VENV)/.dev  ## The error table of the time model, into docs/timing_model.md
	@$(BIN)/python benchmarks/model_error.py --write-docs

tables: $(VENV)/.run  ## Tune the catalogue on the model, into schedules/: half an hour
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT
	export ASC_SCHED_TUNING_DB="$$folder/tuning.sqlite"
	$(BIN)/asc-sched tune --all schedules/catalogue.toml --backend model
	rm -f schedules/Ascend*.toml
	for target in Ascend910B1 Ascend910B3; do
		$(BIN)/asc-sched tuned export "schedules/$$target.toml" --target "$$target"
	done

clean:  ## Remove what was built, also the virtual environment
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
