# Everything runs in .venv, which the first target that needs it builds from requirements.lock.
PYTHON ?= python3
ARGS   ?=
KILLS  ?= 4
ROUNDS ?= 100
BIN    := .venv/bin
VENV   := .venv/.installed
LOCKED := --universal --python-version 3.10 --no-annotate --no-header --quiet

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help train dashboard test test-slurm test-ray test-kill test-faults test-hardening test-properties test-long lint security types format bench docs results reproduce lock clean

help: ## List the targets
	@echo "Usage: make TARGET [ARGS='...'] [PYTHON=python3.12]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: $(VENV) ## Train: make train ARGS="experiment=mnist dropout=fixed"
	$(BIN)/python train.py $(ARGS)

dashboard: $(VENV) ## All runs under outputs/ as one page; ARGS="--watch --serve" follows them
	$(BIN)/python dashboard.py $(ARGS)

test: lint types ## Lint, check types and run the tests; ARGS go to pytest
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadscope $(ARGS)

test-slurm: $(VENV) ## Test sweeps on a Slurm of two nodes on this machine (root; Debian's slurm-wlm and munge)
	@mkdir -p .slurm
	@trap 'tests/slurm/cluster.sh stop $(CURDIR)/.slurm; rm -rf .slurm' EXIT; \
	tests/slurm/cluster.sh start $(CURDIR)/.slurm && \
	TEST_SLURM=1 SLURM_CONF=$(CURDIR)/.slurm/slurm.conf OMP_NUM_THREADS=1 $(BIN)/pytest tests/slurm $(ARGS)

test-ray: .venv/.ray ## Test sweeps on a Ray cluster on this machine; adds Ray to .venv
	TEST_RAY=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/ray $(ARGS)

test-kill: $(VENV) ## Kill runs at random moments and go on, again and again: make test-kill KILLS=20
	TEST_KILL=1 KILLS=$(KILLS) OMP_NUM_THREADS=1 $(BIN)/pytest tests/kill $(ARGS)

test-faults: $(VENV) ## Hurt commands of all kinds at random moments and let them go on: ROUNDS=100, FAULT_SEED repeats
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --rounds $(ROUNDS) $(if $(FAULT_SEED),--seed $(FAULT_SEED)) $(ARGS)

test-hardening: $(VENV) ## Test all commands that must be refused, all odd paths, and full disks (as root)
	TEST_HARDENING=1 OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadscope tests/hardening $(ARGS)

test-properties: $(VENV) ## Test properties of the mathematics on twenty times as many random examples
	HYPOTHESIS_PROFILE=thorough OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto tests/properties $(ARGS)

test-long: $(VENV) ## Test that 2,000 steps and 20 evaluations take no more memory and open files than few
	TEST_LONG=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/long $(ARGS)

lint: $(VENV) security ## Check code style, formatting, and for insecure code
	$(BIN)/ruff check
	$(BIN)/ruff format --check

security: $(VENV) ## Look for insecure code
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src tools benchmarks docker $(wildcard *.py)

types: $(VENV) ## Check types
	$(BIN)/mypy

format: $(VENV) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV) ## Measure layers, sampling, tiny weights, replicas, segmentation, loading and control against their peers, and the dashboard
	$(BIN)/python benchmarks/layer.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/denormals.py
	$(BIN)/python benchmarks/replicas.py
	$(BIN)/python benchmarks/segmentation.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/control.py
	$(BIN)/python benchmarks/dashboard.py

docs: $(VENV) ## Build the documentation: site/index.html, which works offline
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo "site/index.html"

results: $(VENV) ## Write docs/results.md from docs/results/*.csv; tools/results.py add RUN puts runs into these
	$(BIN)/python tools/results.py build

reproduce: $(VENV) ## Run every experiment of docs/results.md whole, and renew the page; what is finished stays: ARGS="mnist --list"
	$(BIN)/python tools/results.py run $(ARGS)

lock: $(VENV) ## Rewrite the locks, keeping its versions; ARGS=--upgrade moves them
	$(BIN)/uv pip compile pyproject.toml --all-extras $(LOCKED) --output-file requirements.lock $(ARGS)
	$(BIN)/uv pip compile requirements-ray.in --no-deps $(LOCKED) --output-file requirements-ray.lock $(ARGS)

clean: ## Remove caches and build files (.venv and outputs stay)
	rm -rf build dist site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

# The stamp is written last, so that an install that failed or was interrupted is tried again.
$(VENV): requirements.lock pyproject.toml src/concrete_dropout/dropout/_native.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "'$(PYTHON)' is missing or older than Python 3.10: name a newer one, as in make test PYTHON=python3.12" >&2; \
		exit 1; }
	@echo "Installing requirements.lock into .venv: a few minutes and several GB the first time."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Without its dependencies, which would replace versions of requirements.lock: see requirements-ray.in.
.venv/.ray: $(VENV) requirements-ray.lock
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-ray.lock
	@touch $@
