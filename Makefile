# The README's commands. Everything happens in .venv; nothing outside the checkout but the model cache is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
DISTS := core kernels plugins/torch plugins/models plugins/rules plugins/parsers plugins/grammar plugins/quant platforms/cpu
PROJECTS := $(addsuffix /pyproject.toml,$(DISTS))
SOURCES := core plugins platforms kernels tests contrib
# An editable install leaves compiling to each module's first import, and PYTHONDONTWRITEBYTECODE to every one: 0.6 s a launch.
COMPILE := $(BIN)/python -m compileall -q $(addsuffix /src,$(DISTS))
MODEL ?=
ARGS ?=

.PHONY: help venv serve test test-all lint format types bench wheels check-wheels sanitize clients docs clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

venv: $(VENV)/.ready ## the whole development environment in .venv

$(VENV)/.ready: requirements/constraints.txt requirements/dev.txt $(PROJECTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c requirements/constraints.txt -r requirements/dev.txt
	$(PIP) install -q -c requirements/constraints.txt --no-build-isolation $(addprefix -e ./,$(DISTS))
	$(COMPILE)
	touch $@

serve: venv ## install, fetch the default model, serve it and show a sample request
	$(BIN)/sgl serve $(MODEL) $(ARGS)

test: venv ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: venv ## ruff and mypy
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(wildcard $(addsuffix /src,$(DISTS)))

format: venv ## let ruff rewrite the sources
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: venv ## the benchmarks of this machine (PEERS=1 measures other engines beside ours)
	$(COMPILE)
	$(BIN)/python tests/bench/run.py $(if $(PEERS),--peers,) $(ARGS)

wheels: venv ## build every dist into dist/
	rm -rf dist && mkdir dist
	set -e; for d in $(DISTS); do $(PIP) wheel -q --no-deps --no-build-isolation -w dist ./$$d; done
	ls -1 dist

check-wheels: wheels ## clean virtual environments: sgl-core alone, then sgl-core with sgl-cpu serving
	$(BIN)/python tests/wheels/check.py dist

sanitize: venv ## the kernels under AddressSanitizer and UndefinedBehaviorSanitizer
	PATH=$(abspath $(BIN)):$$PATH PYTHON=$(abspath $(BIN))/python kernels/tests/sanitize.sh $(ARGS)

clients: venv ## virtual environments of heavy clients, for tests/clients (ARGS names some)
	$(BIN)/python tests/clients/install.py $(ARGS)

docs: venv ## regenerate the generated pages of docs/
	$(BIN)/python -m sgl_core.config.docs docs/configuration.md
	$(BIN)/python -m sgl_core.config.explain_docs docs/explain.md
	$(BIN)/python -m sgl_core.serve.api_docs docs/api.md
	$(BIN)/python tests/field_cases/cases_page.py docs/field-cases.md

clean: ## remove what make made
	rm -rf $(VENV) .clients dist build
