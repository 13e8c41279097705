# Each target does all the set-up it needs on a bare Debian or Ubuntu machine, and is quick the second
# time. TORCH_ARGS chooses the torch build (see constraints.txt), PYTEST_ARGS goes to pytest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --root-user-action=ignore
DEMO_ARGS ?=
CHAOS_ARGS ?= --faults 200
FUZZ_ARGS ?= --seconds 150
PYTEST_ARGS ?=
TORCH_ARGS ?=

.PHONY: help setup setup-test demo test test-desktops test-rest test-slow chaos fuzz check clean

help:
	@echo "make demo       find verified successes on real desktops, fit on them, evaluate"
	@echo "make test       the whole test suite; make test-slow runs the long ones"
	@echo "make chaos      200 faults over real processes; CHAOS_ARGS='--faults 40 --seed 7 --json'"
	@echo "make fuzz       four targets, 150 s each; FUZZ_ARGS='codec --seconds 60 --corpus DIR'"
	@echo "make check      format, lint and types"
	@echo "make setup      only the set-up that demo does by itself; make setup-test that of the tests"
	@echo "make clean      remove what the set-up made in this folder"

demo: setup
	$(VENV)/bin/envs-node demo $(DEMO_ARGS)

# Desktops and the rest at once: both mostly wait. 5 says that PYTEST_ARGS chose nothing there.
test: setup-test
	$(MAKE) --no-print-directory -j2 test-desktops test-rest

test-desktops:
	$(VENV)/bin/pytest $(PYTEST_ARGS) tests/actors/desktop || [ $$? -eq 5 ]

test-rest:
	$(VENV)/bin/pytest $(PYTEST_ARGS) --ignore=tests/actors/desktop tests || [ $$? -eq 5 ]

test-slow: setup-test
	$(MAKE) --no-print-directory -j2 test-desktops test-rest PYTEST_ARGS="-m slow $(PYTEST_ARGS)"

chaos: setup
	$(VENV)/bin/python -m tests.chaos $(CHAOS_ARGS)

fuzz: .make/fuzz
	$(VENV)/bin/python -m tests.fuzz $(FUZZ_ARGS)

check: .make/python
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

setup: .make/apt .make/python .make/checker .make/criu

# The tests drive every application: their packages take gigabytes that the demo does without.
setup-test: setup .make/apt-test

# Packages that are there already cost one dpkg-query; root is asked for only when one is missing.
define install_packages
	@mkdir -p .make
	@command -v dpkg-query >/dev/null || { echo "no dpkg here: install what $< names with your own" \
	  "package manager, then: touch $@" >&2; exit 1; }
	@wanted="$$(sed 's/#.*//' $< | xargs)"; \
	installed=" $$(dpkg-query -W -f='$${db:Status-Abbrev} $${Package}\n' | sed -n 's/^ii  *//p' | xargs) "; \
	missing=""; \
	for name in $$wanted; do [[ "$$installed" == *" $$name "* ]] || missing+=" $$name"; done; \
	if [[ -n "$$missing" ]]; then \
	  root=""; [[ $$EUID -eq 0 ]] || root="sudo"; \
	  [[ -z "$$root" ]] || command -v sudo >/dev/null || { echo "not root, and no sudo:" \
	    "have root run: apt-get install$$missing" >&2; exit 1; }; \
	  echo "installing with apt:$$missing"; \
	  $$root apt-get update -qq; \
	  $$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
	    -o Dpkg::Use-Pty=0 $$missing >/dev/null; \
	fi
	@touch $@
endef

.make/apt: deploy/apt-packages.txt
	$(install_packages)

.make/apt-test: deploy/apt-packages-test.txt | .make/apt
	$(install_packages)

$(VENV)/bin/python: | .make/apt
	@for candidate in python3 python3.13 python3.12 python3.11; do \
	  if $$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	    >/dev/null 2>&1; then $$candidate -m venv $(VENV); exit 0; fi; \
	done; \
	echo "no Python of 3.11 or newer with venv; install one (apt: python3.11 python3.11-venv)" >&2; \
	exit 1

.make/python: constraints.txt pyproject.toml | $(VENV)/bin/python
	@mkdir -p .make
	@echo "installing Python packages into $(VENV) (minutes the first time)"
	@$(if $(TORCH_ARGS),$(PIP) $(TORCH_ARGS) -c constraints.txt torch)
	@$(PIP) -c constraints.txt -e '.[test]'
	@touch $@

.make/fuzz: .make/python
	@$(PIP) -c constraints.txt -e '.[fuzz]'
	@touch $@

.make/checker: deploy/checker-requirements.txt .make/python
	@$(VENV)/bin/envs-node checker install
	@touch $@

# Where there is none, desktops replay instead of being forked; the tests of forking then fail.
.make/criu: deploy/criu.py .make/python
	@if $(VENV)/bin/envs-node criu install; then touch $@; fi

clean:
	rm -rf .make $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
