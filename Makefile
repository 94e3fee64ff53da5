# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make demo   installs what privmean itself needs and runs the main job on real data
#   make test   installs what tests need too, and runs format check, lint, types and quick tests
# `make help` lists all tasks: a task has its line there behind two number signs.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PACKAGES = src:$(shell $(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")

# Tests of the collector need a browser and a PostgreSQL server of the system. Where they are
# missing, they are left out with a word; never in CI, which installs them first (.ci/run).
SYSTEM := $(shell command -v chromium >/dev/null && command -v chromedriver >/dev/null && \
  { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1 && echo yes)
ifeq ($(SYSTEM)$(CI),)
WITHOUT := and not system
endif
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal -p no:anyio -p no:benchmark

DOCS := $(VENV)-docs

.PHONY: help demo test quick test-slow left-out audit-long docs outputs changelog lowest proofs review \
  two-servers lint types fuzz vectors test-js test-spark engines reproduce bench peers size golden clean

# requirements.lock: what privmean and the demo import; requirements-dev.lock: all of that at the
# same versions, and what tests and benchmarks need
$(RUNS): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer is found: make demo PYTHON=..."; exit 1; }
	@echo "making $(VENV) with $(PYTHON), and installing $(words $(shell cat $<)) packages that \
	privmean and its demo need: about 760 MB, once"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements.lock
	@$(PIP) --no-deps -e .
	@touch $(RUNS)

$(READY): requirements-dev.lock $(RUNS)
	@echo "installing what format check, lint, types, tests and benchmarks need besides: about \
	1060 MB more, once"
	@$(PIP) -r requirements-dev.lock
	@touch $(READY)

demo: $(RUNS) ## install what privmean needs, run the main job on real data
	$(BIN)/python examples/demo.py

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | \
	  while IFS="$$(printf '\t')" read -r task says; do printf '  %-14s %s\n' "$$task" "$$says"; done

test: lint types quick ## format check, lint, types, quick tests: every push

# pages show what their code prints with noise of a fixed seed, and the README a picture of it
outputs: $(READY) ## refresh the outputs that pages show, and the picture of the README
	$(BIN)/python docs/site-tools/refresh_outputs.py
	$(BIN)/python docs/site-tools/readme_picture.py

# a release: make changelog VERSION=0.3.0 DATE=2027-01-31 moves changelog.d/*.md into CHANGELOG.md
changelog: $(READY) ## a release: VERSION=0.3.0 DATE=2027-01-31
	$(BIN)/python changelog.d/assemble.py $(VERSION) $(DATE)

docs: $(DOCS)/.ready ## the site, in site/index.html; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	$(DOCS)/bin/python docs/site-tools/offline.py site

# privmean is read, not imported: the site needs nothing of what privmean needs
$(DOCS)/.ready: requirements-docs.lock
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer is found: make docs PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@

# the lowest versions that pyproject.toml admits: the law of the noise, and every page of the docs
LOWEST := $(VENV)-lowest
lowest: $(LOWEST)/.ready ## the main tests with the lowest versions that pyproject.toml admits
	$(LOWEST)/bin/python -m pytest -p no:cacheprovider -W ignore::DeprecationWarning \
	  -W ignore::FutureWarning tests/noise tests/test_pages.py tests/test_docstrings.py \
	  tests/cli tests/local/test_cli.py tests/privacy/test_ledger_trail.py tests/test_release_output.py

EXTRAS := polars,pandas,arrow,plot,zstd,regression,sign,ledger,collector
$(LOWEST)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer is found: make lowest PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	  -e '.[$(EXTRAS)]' 'pytest>=9' 'hypothesis>=6.150' 'packaging>=24' 'httpx>=0.27'
	@touch $@

# the joint release of value, square and weight, for every width, and the law of the bulk sampler,
# for every table (needs coqc; Debian: coq). A test runs them where coqc is; nightly elsewhere
proofs: ## lemmas by Coq (Debian: coq)
	@folder=$$(mktemp -d) && cp docs/proofs/machine/*.v $$folder && cd $$folder && \
	  for file in *.v; do coqc $$file && echo "$$file: proved" || exit 1; done

# means by two servers, with the library of proofs that they need (Node 20 and its registry)
two-servers: $(READY) clients/two-servers/node_modules ## means by two servers (Node 20 and its registry)
	$(BIN)/python -m pytest tests/experimental

clients/two-servers/node_modules: clients/two-servers/package.json
	cd clients/two-servers && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

# ten claims, ten commands, one table: docs/review.md
review: $(READY) ## ten claims, ten commands, one table: docs/review.md
	$(BIN)/python benchmarks/review.py

lint: $(READY) ## format check and lint
	$(BIN)/ruff format --check src tests benchmarks examples docs/site-tools changelog.d
	$(BIN)/ruff check src tests benchmarks examples docs/site-tools changelog.d

types: $(READY) ## mypy, strict on src
	$(BIN)/mypy --num-workers 2

quick: $(READY) left-out
	$(PYTEST) -m "not slow and not long $(WITHOUT)"

test-slow: $(READY) left-out ## tests of half a second and more; CI runs them after `make test`
	$(PYTEST) -m "slow and not long $(WITHOUT)"

left-out:
ifdef WITHOUT
	@echo "chromium, chromium-driver or postgresql is missing: tests that need them are left out"
endif

# whole jobs of the audit on every broken twin, and whole calls from every kind of source: nightly
audit-long: $(READY) ## nightly: whole jobs of the audit on every broken twin
	$(PYTEST) -m long tests/auditing

# Fresh cases, for as long as it is given: make fuzz MINUTES=60. Runs every Hypothesis test with new
# seeds, then every benchmarks/fuzz_*.py as `--cases N --seed S` (exit 0: all held), round after round.
# `make test` draws the same cases each run; what is found here is written down there as an example.
MINUTES ?= 10
fuzz: $(READY) ## the same properties with fresh cases: MINUTES=60
	$(BIN)/python benchmarks/fuzz.py --minutes $(MINUTES)

# needs a Java 17 runtime (Debian: openjdk-17-jre-headless); PySpark goes into an environment of its
# own, over the packages of the first; once in this process, once through a local Connect server
SPARK := $(VENV)-spark
test-spark: $(SPARK)/.ready ## Spark, in this process and through Connect (Java 17)
	PYTHONPATH=$(PACKAGES) $(SPARK)/bin/python tests/data/spark_homes.py
	PYTHONPATH=$(PACKAGES) $(SPARK)/bin/python tests/data/spark_homes.py --connect

$(SPARK)/.ready: $(READY)
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark[connect]==4.3.0'
	@touch $@

# the homes of people side by side: answers, time and memory. PostgreSQL is the system's; ClickHouse
# (chdb, 540 MB) goes into an environment of its own, over the first
ENGINES := $(VENV)-engines
engines: $(ENGINES)/.ready ## PostgreSQL and ClickHouse: tests, time and memory
	PYTHONPATH=$(PACKAGES) $(ENGINES)/bin/python -m pytest -p no:cacheprovider tests/data/test_sql_homes.py
	PYTHONPATH=$(PACKAGES) $(ENGINES)/bin/python benchmarks/engines.py --publish

$(ENGINES)/.ready: $(READY)
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'ibis-framework[datafusion,clickhouse]==12.0.0' datafusion==50.1.0 psycopg[binary]==3.3.9 \
	  chdb==4.4.0
	@touch $@

# what every client and every server of the wire format must agree with: docs/wire-format.md
vectors: $(READY) ## write anew what clients of the wire format must agree with
	$(BIN)/python tests/local/wire_vectors.py

# the JavaScript client alone (needs Node 20); `make test` runs this too where there is Node
test-js: ## the JavaScript client alone (Node 20)
	cd clients/js && node --test test/*.test.js

reproduce: $(READY) ## figures and tables of the papers
	$(BIN)/python benchmarks/reproduce.py

# releases at fixed seeds against those that are stored, field by field; options of the command:
# make golden ARGS=--ignore-texts, ARGS=--update after a change that was meant
golden: $(READY) ## releases at fixed seeds against the stored ones: ARGS=--update stores anew
	$(BIN)/python -W ignore tests/golden/compare.py $(ARGS)

# lines of the source by folder and kind, and how often one idea occurs; numbers that changed since
# the stored table: benchmarks/size.py --compare
size: $(RUNS) ## source lines by folder and kind, and how often one idea occurs
	$(BIN)/python benchmarks/size.py

bench: $(READY) ## times of whole jobs
	$(BIN)/python benchmarks/speed.py

# other packages, each in an environment of its own under .peers/ (Tumult Analytics needs Java 17)
peers: $(READY) ## other packages on the same jobs
	$(BIN)/python benchmarks/peers.py --setup
	$(BIN)/python benchmarks/peers.py

clean: ## remove what these tasks made
	rm -rf $(VENV) $(VENV)-spark $(VENV)-engines $(DOCS) $(LOWEST) .peers site demo .pytest_cache .mypy_cache .ruff_cache
