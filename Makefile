# Needs python3 and make, nothing else. `make` alone lists the targets.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
MINUTES ?= 10
PASSES ?= 10
SEED ?= 0
BUCKET ?= module

# Where this is set, every process compiles the sources of all that it imports anew: a second, for each of hundreds.
export PYTHONDONTWRITEBYTECODE :=

BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV := $(BIN)/uv
PEERS := $(VENV)/peers/.stamp
GALLERY := $(VENV)/gallery/.stamp
OLDEST := $(VENV)/oldest/.stamp
# One version of each package for every Python, so that types and numbers do not depend on which one runs.
COMPILE := pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help setup reproduce figure check format test test-random test-oldest docs fuzz attack mutate soak audit-source audit count gpu-code \
	gpu-golden bench bench-peers bench-gpu bench-regret bench-robustness bench-windows bench-intervals bench-latency bench-scale cluster-test gallery \
	golden lock clean

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

test: setup ## every test, the same examples each time, on WORKERS processes (default 2); ARGS="-k name" narrows
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# The environment of the oldest versions that pyproject.toml allows, and the newest of what only tests need.
$(OLDEST): pyproject.toml
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(VENV)/oldest
	# They deprecate what Matplotlib 3.9 and PyArrow 18 call, and warnings are errors.
	printf "pyparsing<3.3\npandas<3.1\n" > $(VENV)/oldest/others.txt
	$(UV) pip compile --quiet --resolution lowest-direct --no-header --no-annotate pyproject.toml --extra data \
		--extra gym --extra cluster --constraint $(VENV)/oldest/others.txt --output-file $(VENV)/oldest/lowest.txt
	$(UV) pip install --quiet --python $(VENV)/oldest/bin/python --requirement $(VENV)/oldest/lowest.txt \
		--constraint $(VENV)/oldest/lowest.txt pytest pytest-random-order pytest-xdist hypothesis pandas polars \
		playwright build hatchling buffalo-gym uv
	$(UV) pip install --quiet --python $(VENV)/oldest/bin/python --no-deps --no-build-isolation --editable .
	touch $@

test-random: setup ## the tests PASSES times (default 10) in random order, with 1, 2 and 4 workers in turn; SEED=1
	for pass in $$(seq $(PASSES)); do \
		set -- 4 1 2; shift $$((pass % 3)); \
		echo "pass $$pass: --random-order-seed=$$(($(SEED) + pass)) -n $$1"; \
		$(BIN)/python -m pytest -n $$1 --dist worksteal --random-order-bucket=$(BUCKET) \
			--random-order-seed=$$(($(SEED) + pass)) $(ARGS) || exit 1; \
	done

test-oldest: $(STAMP) $(OLDEST) ## the tests on the oldest versions that pyproject.toml allows; make setup PYTHON=python3.13 for the newest
	$(VENV)/oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal --deselect tests/repository/test_wheel.py \
		$(or $(ARGS),tests)

docs: setup ## the reference of the public surface, from the docstrings, into build/docs
	$(BIN)/python tools/reference.py build/docs

fuzz: setup ## the property tests with fresh examples for MINUTES (default 10); ARGS="tests/systems" narrows
	$(BIN)/python tools/fuzz.py --minutes $(MINUTES) --workers $(WORKERS) $(ARGS)

attack: setup ## damaged files, stores, journals, documents, tables and command lines for MINUTES, or CASES=100000; ARGS="--targets tables"
	$(BIN)/python -m pytest tests/attack tests/test_compilation.py
	$(BIN)/python tests/attack/attack.py $(if $(CASES),--cases $(CASES),--minutes $(MINUTES)) --workers $(WORKERS) $(ARGS)

mutate: setup ## change kernels one thing at a time and list what no test notices; ARGS=policies/ucb.py for others
	NUMBA_DISABLE_JIT=1 $(BIN)/python tools/mutate.py --processes $(WORKERS) $(ARGS)

audit-source: setup ## faults that bandit sees in the source; answers in SECURITY.md
	$(BIN)/bandit --quiet --recursive src --severity-level medium --confidence-level medium

audit: audit-source ## that and known faults of the dependencies, where they can be looked up; fails where not
	$(BIN)/pip-audit --strict --requirement requirements.txt --disable-pip --progress-spinner off

count: setup ## lines of code, Any in signatures, repeated passages
	$(BIN)/python tools/count.py $(ARGS)

cluster-test: setup ## a cluster whose workers are killed 50 times (or KILLS) and whose scheduler twice; Slurm where installed
	$(BIN)/python tests/cluster/chaos.py --kills $(or $(KILLS),50) $(ARGS)
	$(BIN)/python -m pytest tests/cluster

gpu-code: setup ## compile every kernel of the GPU, without one, and compare sizes and registers with the golden file
	KALMANBANDITS_GPU_CODE=all $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/gpu_code $(ARGS)

gpu-golden: setup ## write those sizes and registers anew (ARGS=--keep: the missing ones); a change needs a reason
	$(BIN)/python tests/gpu_code/ptx.py $(ARGS)

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

bench-gpu: setup ## speed on an NVIDIA GPU, and every policy there against the CPU; needs the extra [gpu]
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/speed.py --gpu

bench-regret: setup ## regret of every policy over that of the filter that knows; ARGS="--runs 4" for a quick look
	$(BIN)/python benchmarks/regret.py $(ARGS)

bench-robustness: setup ## LearnedKalman on coins that seldom pay, and with one reward of a million
	$(BIN)/python benchmarks/robustness.py $(ARGS)

bench-windows: setup ## regret of AdaptiveUBSS over that of the best fixed window
	$(BIN)/python benchmarks/windows.py $(ARGS)

bench-intervals: setup ## how often the intervals of backtests cover, and how wide they are, into docs/intervals.md
	$(BIN)/python benchmarks/intervals.py $(ARGS)

bench-latency: setup ## how long a choice takes while LearnedKalman fits in a thread; needs an idle core
	$(BIN)/python benchmarks/latency.py $(ARGS)

bench-scale: setup ## what a cluster costs, and how far it scales, into benchmarks/scale.md
	$(BIN)/python benchmarks/scale.py $(ARGS)

gallery: setup $(GALLERY) ## ten real tables from packages, each with its verdict, into docs/gallery.md
	$(BIN)/python benchmarks/gallery.py $(VENV)/gallery/lib/python*/site-packages $(ARGS)

# Only the data files of these packages are read: they are installed without what they need.
$(GALLERY): $(STAMP) benchmarks/gallery/requirements.txt
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(VENV)/gallery
	$(UV) pip sync --quiet --python $(VENV)/gallery/bin/python --require-hashes benchmarks/gallery/requirements.txt
	touch $@

golden: setup ## write the golden regrets anew; a change needs a reason in the CHANGELOG
	$(BIN)/python tests/reference/golden.py

soak: setup ## kill studies 300 times and processes that share a journal 1,000 times (or KILLS), and compare what is left
	KALMANBANDITS_KILLS=$(or $(KILLS),300) $(BIN)/python -m pytest tests/studies/test_kill.py $(ARGS)
	KALMANBANDITS_KILLS=$(or $(KILLS),1000) $(BIN)/python -m pytest tests/agent/test_journal_kill.py $(ARGS)

lock: setup ## choose the versions in requirements*.txt anew where needed; ARGS=--upgrade takes the latest
	$(UV) $(COMPILE) $(ARGS) pyproject.toml --output-file requirements.txt
	$(UV) $(COMPILE) $(ARGS) --extra dev --constraint requirements.txt pyproject.toml --output-file requirements-dev.txt
	$(UV) $(COMPILE) $(ARGS) benchmarks/peers/requirements.in --output-file benchmarks/peers/requirements.txt
	$(UV) $(COMPILE) $(ARGS) --no-deps benchmarks/gallery/requirements.in --output-file benchmarks/gallery/requirements.txt

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
