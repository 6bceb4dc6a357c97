# What a developer does with nyala. `make` alone lists the targets.
#
# PYTHON  the interpreter that makes .venv (an existing .venv is used as it is)
# ARGS    handed on: make test ARGS="tests/storage -k keys", make bench ARGS="q6 DIR"

PYTHON ?= python3
ARGS ?=
VENV := .venv
RUN := $(VENV)/bin/python
# A test that hangs fails after twenty minutes, with its name and the stacks of its threads, and the others go on. The
# stacks after five minutes, of pyproject.toml, are for runs without this: tests of minutes would print them here.
PARALLEL := -n auto --dist worksteal --timeout 1200 --timeout-method signal -o faulthandler_timeout=0
DEMO := .data/tpch-0.1

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test test-long check seconds floors format lint types golden bench package clean distclean
MAKEFLAGS += --no-print-directory
# Where it is set, as images of containers do, pytest rewrites the assertions of 400 modules in each of its processes:
# ten seconds each time.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1@\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed-tpch ## load TPC-H at scale factor 0.1, run the 22 queries and check their answers
	@# The manifest is the last thing that a load writes; without it a directory is what an interrupted load left.
	@if [ ! -e $(DEMO)/tpch.json ]; then rm -rf $(DEMO) && mkdir -p $(dir $(DEMO)) && \
	    $(VENV)/bin/nyala tpch load --sf 0.1 $(DEMO); fi
	@$(VENV)/bin/nyala tpch run $(DEMO) --check
	@echo
	@echo "The database is in $(DEMO). Ask it something yourself:"
	@echo "  $(VENV)/bin/nyala shell $(DEMO)"

test: $(VENV)/.installed-test ## format, lint, types and all tests (installs what they need)
	@$(MAKE) format-check lint types bytecode
	@$(MAKE) tests-alone

.PHONY: tests-alone
tests-alone:
	@$(RUN) -m pytest $(PARALLEL) $(ARGS)

# Generators of statements, faults and histories begin with the number of the day: they try others each night.
test-long: $(VENV)/.installed-test bytecode ## all tests with all of their examples, others each day: for a night
	@NYALA_EXAMPLES=$${NYALA_EXAMPLES:-1} NYALA_SEED=$${NYALA_SEED:-$$(date +%-j)} NYALA_TPCDS=all $(MAKE) tests-alone

CHECK := NYALA_EXAMPLES=$${NYALA_EXAMPLES:-0.05} $(RUN) -m pytest $(PARALLEL) -m "not slow"

check: $(VENV)/.installed-test ## format, lint, types and the cheap tests, in three minutes
	@$(MAKE) format-check lint types bytecode
	@$(CHECK) --check $(ARGS)

seconds: $(VENV)/.installed-test bytecode ## record in tests/seconds.json which modules are cheap enough for make check
	@$(CHECK) --record-seconds $(ARGS)

# The lower bounds that pyproject.toml declares are true where the smoke tests pass with exactly these versions. They are
# tried on a copy of the sources, since an installation builds the compiled kernels in place: other tests may run meanwhile.
floors: ## smoke tests with the oldest dependencies allowed, on the oldest and the newest Python here
	@copy=$(abspath $(VENV))/floors; rm -rf $$copy; $(PYTHON) tests/smoke/floors.py copy $$copy; \
	for python in $$($(PYTHON) tests/smoke/floors.py pythons); do \
	    venv=$(abspath $(VENV))/floors-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "$$(basename $$venv): $$($$python --version)"; \
	    if [ pyproject.toml -nt $$venv/.installed ]; then \
	        $$python -m venv --clear $$venv; \
	        $$python tests/smoke/floors.py constraints floors > $$venv/constraints.txt; \
	        (cd $$copy && \
	            $$venv/bin/python -m pip install -q --disable-pip-version-check -c $$venv/constraints.txt -e '.[floors]'); \
	        touch $$venv/.installed; \
	    fi; \
	    (cd $$copy && $$venv/bin/python -m pytest --noconftest tests/smoke); \
	done

# Debian's package has it, beside a server, which is not installed: only this program is unpacked.
.PHONY: promtool
promtool: ## put promtool, which tests of deploy/prometheus need, into .venv (Debian and its derivatives)
	@test -x $(VENV)/bin/promtool || { tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; target=$(abspath $(VENV))/bin/promtool; \
	cd "$$tmp"; { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } 2>/dev/null && \
	dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool > promtool && install promtool "$$target"; }

format: $(VENV)/.installed-test ## rewrite the sources in the house's layout
	@$(RUN) -m ruff check --select I --fix .
	@$(RUN) -m ruff format .

.PHONY: format-check
format-check: $(VENV)/.installed-test
	@$(RUN) -m ruff format --check .

lint: $(VENV)/.installed-test ## ruff
	@$(RUN) -m ruff check .

# The root is the package, and mypy names a package after its folder: so it looks at the root through a link called
# nyala. The link is relative and lies in a folder that every tool passes over.
types: $(VENV)/.installed-test ## mypy, strict
	@mkdir -p .mypy_cache/path && ln -sfn ../.. .mypy_cache/path/nyala
	@MYPYPATH=.mypy_cache/path $(RUN) -m mypy --config-file pyproject.toml -p nyala | sed 's|^\.mypy_cache/path/nyala/||'

# Tests start hundreds of processes: servers, commands, Spark's workers. Where PYTHONDONTWRITEBYTECODE is set, as images
# of containers do, each of them would compile the package anew, half a second every time.
.PHONY: bytecode
bytecode:
	@$(RUN) -m compileall -q -x '/\.' .

# In a new clone, each worker of pytest would rewrite the assertions of 500 modules, and look for constants that Hypothesis
# tries in 1,900, all at the same time and 15 s each. One collection leaves both in files.
.PHONY: test-caches
test-caches: bytecode
	@$(RUN) -m pytest --collect-only -qq > /dev/null 2>&1 || true  # the tests report what is wrong

golden: $(VENV)/.installed-test ## rewrite the golden scripts; review the difference
	@$(RUN) -m pytest --golden=write $(ARGS)
	@git diff --stat -- tests

bench: $(VENV)/.installed-bench ## micro-benchmarks beside DuckDB, for instance ARGS="load --sf 0.1"
	@$(VENV)/bin/nyala bench $(or $(ARGS),--help)

package: $(VENV)/.installed-test ## build the wheel and try it from outside the checkout
	@rm -rf build dist && $(RUN) -m pip wheel -q --no-deps -w dist .
	@site=$$($(abspath $(RUN)) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(RUN) -m pip install -q --no-deps --target "$$tmp/wheel" dist/nyala-*.whl; \
	rm -rf build; cd "$$tmp" && PYTHONPATH="$$tmp/wheel:$$site" $(abspath $(RUN)) -S -m nyala shell -c "SELECT 6 * 7 AS answer"

clean: ## remove caches and the demo's data
	@rm -rf .data build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## and the virtual environment
	@rm -rf $(VENV) nyala.egg-info

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "nyala needs Python 3.11 or newer, this is %s; try: make PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

# Installing again is needed only when pyproject.toml says so; the stamps lie in .venv and go with it.
$(VENV)/.installed-tpch: EXTRAS := tpch
$(VENV)/.installed-test: EXTRAS := test,dev
$(VENV)/.installed-bench: EXTRAS := bench,tpch
$(VENV)/.installed-%: pyproject.toml | $(RUN)
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(RUN) -m ensurepip -q
	@rm -rf nyala.egg-info  # of an older version: entry points are looked for in it, too
	$(RUN) -m pip install -q --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@
