# Two commands are enough on a fresh machine with Python >= 3.11 and make: `make demo`, `make test`.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin

# Commands that compile all of it at each start take twice the time.
unexport PYTHONDONTWRITEBYTECODE

# Whatever decides what an environment holds; an environment older than one of these is refreshed.
# Distributions beside the core; those of the demo; those whose servers only extras bring.
ROOMS := $(sort $(dir $(wildcard sandboxes/*/pyproject.toml gate/pyproject.toml hosts/pyproject.toml lab/pyproject.toml)))
DEMO := sandboxes/git/ sandboxes/office/ sandboxes/trackers/
SERVED := statediff-chat statediff-cloud statediff-erp statediff-payments
PROJECT := pyproject.toml hatch_build.py $(ROOMS:%=%pyproject.toml)
LOCKS := requirements/installer.lock requirements/core.lock requirements/dev.lock requirements/packs.lock

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
# An environment made by `make setup` holds the core too, and is used as it is.
demo: $(if $(wildcard $(VENV)/dev.stamp),,$(VENV)/core.stamp) ## Run the demo (installs the core dependencies only)
	@$(BIN)/statediff demo

.PHONY: setup
setup: $(VENV)/dev.stamp ## Make the development environment in .venv, from the lock

# Of a package, a room or a laboratory: its folder of tests, or the test of its name.
PKG ?= kernel
QUICK_TESTS = $(or $(wildcard $(if $(filter kernel,$(PKG)),tests/kernel tests/policy tests/resolve,tests/$(PKG) \
  sandboxes/$(PKG)/tests $(filter-out tests/tests,$(PKG)/tests) tests/test_$(notdir $(PKG)).py)),$(error no tests of $(PKG)))

# Rooms whose servers only extras bring have their tests where these are: elsewhere all are skipped.
PACKS ?= .packs
QUICK_IN = $(if $(filter $(SERVED:statediff-%=%),$(PKG)),packs-setup,setup)

.PHONY: quick
quick: $(QUICK_IN) ## Run the examples of one package, room or laboratory: PKG=reports, PKG=git, PKG=lab
	$(if $(filter setup,$(QUICK_IN)),$(BIN),$(PACKS)/bin)/python -m pytest -n $(WORKERS) -q \
	  -m "not slow and not hypothesis" $(QUICK_TESTS)

.PHONY: test
test: check ## Run check, then all tests but those that take long (WORKERS=2)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

.PHONY: slow
slow: setup ## Run the tests that take long: commands of each page, whole benchmarks, recorded runs
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow

.PHONY: external
external: setup ## Run what needs Docker, a browser, Node.js or database clients; each must be there
	STATEDIFF_REQUIRE="docker browser node clients" $(BIN)/python -m pytest -n $(WORKERS) \
	  --dist worksteal -m "docker or browser or node or clients"

.PHONY: hosts
hosts: setup ## Make environments of the hosts that need their own, in .hosts, and run what needs them
	hosts/tests/environments/environments.sh
	STATEDIFF_REQUIRE=host $(BIN)/python -m pytest -n $(WORKERS) -m host hosts/tests/environments

# The others need what only the development environment has.
PACK_TESTS := tests/packs sandboxes tests/test_tasks.py tests/test_drift.py tests/test_compensation.py tests/test_hostile.py

.PHONY: packs-setup
packs-setup:
	$(MAKE) --no-print-directory VENV=$(PACKS) $(PACKS)/packs.stamp

.PHONY: packs
packs: packs-setup ## Make an environment with the servers of the packs, in .packs, and run what needs them
	STATEDIFF_REQUIRE=pack $(PACKS)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m pack $(PACK_TESTS)

.PHONY: wheels
wheels: setup ## Build every wheel, install each as its README says in a fresh environment, run its command
	$(BIN)/python -m tests.wheels $(ROOM)

.PHONY: pages
pages: setup ## Run what each page shows in a fresh environment with what it says to install (PAGE=judge)
	$(BIN)/python -m tests.wheels --pages $(PAGE)

.PHONY: check
check: setup ## Run ruff, mypy strict and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: setup ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: fuzz
fuzz: setup ## Run the properties with many random examples, 100,000 contract files, 200 trials beside others
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --timeout=0
	$(BIN)/python -m tests.contract.drafts --apps 500 --workers $(WORKERS)
	$(BIN)/python -m lab.benchmarks.crowd --trials 200 --seed $(or $(SEED),1)

.PHONY: variants
variants: setup ## Try every agent of every task on the real servers (Docker; minutes)
	STATEDIFF_EVERY_CASE=1 $(BIN)/python -m pytest -n $(WORKERS) sandboxes -k test_tasks

.PHONY: pictures
pictures: setup ## Make the pictures of the docs again, from real runs (ONLY=part of a name)
	$(BIN)/python -m docs.build_pictures $(ONLY)

.PHONY: site
site: setup ## Build the documentation as a site in site/; a broken link is an error
	$(BIN)/mkdocs build --strict

.PHONY: bench
bench: setup ## Measure, side by side with peers
	$(BIN)/statediff bench
	$(BIN)/python -m lab.benchmarks.trial

.PHONY: mutation
mutation: setup ## Change the judging kernel and count what its tests notice (SAMPLE=34, SEED=0)
	$(BIN)/python -m lab.benchmarks.mutation --sample $(or $(SAMPLE),0) --seed $(or $(SEED),0) \
	  --within $(or $(WITHIN),0) --least $(or $(LEAST),0) --jobs $(WORKERS)

.PHONY: release
release: packs-setup ## Make the files of a release of this commit in dist/ (KEY=FILE signs them)
	rm -rf dist
	$(PACKS)/bin/python -m requirements.release dist $(KEY:%=--key %)

.PHONY: lock
# uv lives in a throw-away environment: it resolves for every platform at once and writes no address.
# `--upgrade` moves every version; without it, only what pyproject.toml forces is moved.
lock: ## Resolve the locks anew (LOCK_FLAGS=--upgrade moves every version)
	@tool="$$(mktemp -d)" && trap 'rm -rf "$$tool"' EXIT && \
	$(PYTHON) -m venv "$$tool" && "$$tool/bin/pip" install --quiet 'uv>=0.5,<1' && \
	compile() { "$$tool/bin/uv" pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command 'make lock' $(LOCK_FLAGS) "$$@"; } && \
	compile requirements/installer.in -o requirements/installer.lock && \
	gather() { $(PYTHON) requirements/gather.py "$$@" >"$$tool/wanted.in"; } && \
	gather 'statediff[sandboxes]' && \
	compile "$$tool/wanted.in" requirements/build.in --no-annotate -o requirements/core.lock && \
	gather 'statediff[dev,bench]' $(SERVED) && \
	compile "$$tool/wanted.in" requirements/build.in --no-annotate \
	  -c requirements/core.lock -o requirements/dev.lock && \
	gather 'statediff[test,packs]' && \
	compile "$$tool/wanted.in" requirements/build.in --no-annotate \
	  -c requirements/dev.lock -o requirements/packs.lock
	@if grep -nE '://|^-' $(LOCKS); then \
	  echo 'error: a lock names an address or an option; see the lines above' >&2; exit 1; fi

.PHONY: hosts-lock
# What a host and the core need together. certifi: Harbor 0.25 wants a newer one than some indexes have.
hosts-lock: ## Resolve requirements/hosts anew, for Python 3.12
	@tool="$$(mktemp -d)" && trap 'rm -rf "$$tool"' EXIT && \
	$(PYTHON) -m venv "$$tool" && "$$tool/bin/pip" install --quiet 'uv>=0.5,<1' && \
	echo 'certifi>=2026.10.18' >"$$tool/override.txt" && \
	$(PYTHON) requirements/gather.py 'statediff[agents,sandboxes]' >"$$tool/ours.in" && \
	for host in $(basename $(notdir $(wildcard requirements/hosts/*.in))); do \
	  "$$tool/bin/uv" pip compile --quiet --python-version 3.12 --no-emit-index-url --no-annotate \
	    --no-header --override "$$tool/override.txt" requirements/hosts/$$host.in requirements/build.in \
	    "$$tool/ours.in" -o "$$tool/$$host.txt" && \
	  { echo "# Exact versions of $$host and of the core of statediff; written by \`make hosts-lock\`."; \
	    cat "$$tool/$$host.txt"; } >requirements/hosts/$$host.txt || exit 1; \
	done

.PHONY: vectors
vectors: setup ## Write the specification of bundles and its vectors to build/vectors
	rm -rf build/vectors
	$(BIN)/python fixtures/export_vectors.py build/vectors

.PHONY: clean
clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) .hosts .packs dist build site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find statediff tests sandboxes lab hosts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The interpreter is checked before anything is written, so that a failure leaves nothing behind.
$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo 'error: "$(PYTHON)" not found. Install Python 3.11 or newer, or say PYTHON=python3.x' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: statediff needs Python 3.11 or newer, found $$("$(PYTHON)" --version 2>&1)." \
	    'Say PYTHON=python3.x to choose another' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'error: "$(PYTHON)" lacks venv or ensurepip. On Debian and Ubuntu: apt-get install python3-venv' >&2; \
	  exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)

$(VENV)/core.stamp: $(BIN)/python requirements/core.lock $(PROJECT)
	$(call install,requirements/core.lock,$(DEMO))

$(VENV)/dev.stamp: $(BIN)/python requirements/dev.lock $(PROJECT)
	$(call install,requirements/dev.lock,$(ROOMS))

$(VENV)/packs.stamp: $(BIN)/python requirements/packs.lock $(PROJECT)
	$(call install,requirements/packs.lock,$(ROOMS))

# uv takes a tenth of pip's time; where it can't be had, or reaches no index, pip does it. The build
# backend comes from the lock as well, hence no build isolation. `pip check` notices a lock that lags
# behind pyproject.toml.
define install
	{ $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/installer.lock && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1); } || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  $(patsubst %,-e %,. $(2))
	$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@
endef
