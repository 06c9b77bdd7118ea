# Needs python3 and make, nothing else. `make` alone lists the targets.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV := $(BIN)/uv
PEERS := $(VENV)/peers/.stamp
# One version of each package for every Python, so that types and numbers do not depend on which one runs.
COMPILE := pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help setup reproduce figure check format test soak bench bench-peers bench-gpu bench-regret bench-windows golden lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

setup: $(STAMP) ## make the virtual environment and install the package into it, editable

# pip fetches uv alone, at the locked version and hash; uv does the rest in seconds.
$(STAMP): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.txt > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

reproduce: setup ## the paper's figure, with intervals, into results/paper; ARGS=--quick for a first look
	$(BIN)/kalmanbandits reproduce $(ARGS)

figure: reproduce ## the same, and put the figure into the documentation
	cp results/paper/figure.png docs/images/figure.png

check: setup ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: setup ## sort imports and format, in place
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

test: setup ## every test, on WORKERS processes (default 2); ARGS="-k name" narrows
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

bench: setup $(PEERS) ## speed on this machine, against C++ and other libraries, into benchmarks/speed.md
	PEERS_PYTHON=$(VENV)/peers/bin/python $(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/agent.py

bench-peers: setup $(PEERS) ## the other libraries alone
	PEERS_PYTHON=$(VENV)/peers/bin/python $(BIN)/python benchmarks/speed.py --peers

# The other libraries have an environment of their own: what they need and what we need must not meet.
$(PEERS): $(STAMP) benchmarks/peers/requirements.txt
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(VENV)/peers
	$(UV) pip sync --quiet --python $(VENV)/peers/bin/python --require-hashes benchmarks/peers/requirements.txt
	touch $@

bench-gpu: setup ## speed on an NVIDIA card, and every policy there against the CPU; needs the extra [gpu]
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/speed.py --card

bench-regret: setup ## regret of every policy over that of the filter that knows; ARGS="--runs 4" for a quick look
	$(BIN)/python benchmarks/regret.py $(ARGS)

bench-windows: setup ## regret of UBSS(window="auto") over that of the best fixed window
	$(BIN)/python benchmarks/windows.py $(ARGS)

golden: setup ## write the golden regrets anew; a change needs a reason in the CHANGELOG
	$(BIN)/python tests/reference/golden.py

soak: setup ## kill studies 300 times and processes that share a journal 1,000 times (or KILLS), and compare what is left
	KALMANBANDITS_KILLS=$(or $(KILLS),300) $(BIN)/python -m pytest tests/studies/test_kill.py $(ARGS)
	KALMANBANDITS_KILLS=$(or $(KILLS),1000) $(BIN)/python -m pytest tests/agent/test_journal_kill.py $(ARGS)

lock: setup ## choose the versions in requirements*.txt anew where needed; ARGS=--upgrade takes the latest
	$(UV) $(COMPILE) $(ARGS) pyproject.toml --output-file requirements.txt
	$(UV) $(COMPILE) $(ARGS) --extra dev --constraint requirements.txt pyproject.toml --output-file requirements-dev.txt
	$(UV) $(COMPILE) $(ARGS) benchmarks/peers/requirements.in --output-file benchmarks/peers/requirements.txt

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
