# Every target does the set-up it needs and no more; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-input
# The packages of the tests come by uv, in a fifth of pip's CPU: Python compiles only what is imported, and
# PySpark's jars are not compressed a second time. Users' come by pip, which knows the mirrors of their machine.
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python \
	--config-settings-package 'pyspark:--build-option=bdist_wheel --compression=stored'
# Arguments for the command behind a target: make up ARGS="--port 9000", make test ARGS="-k retry"
ARGS ?=

# Most tests wait for servers. These runners share one Kafka and one PostgreSQL.
PARALLEL := --numprocesses 5 --dist worksteal

# The servers of tests keep their data in memory (/dev/shm) if 4 GB are free there, so that a busy disk
# fails no test.
MEMORY_KB := $(shell df -k --output=avail /dev/shm 2>/dev/null | tail -1)
ifeq ($(shell [ -w /dev/shm ] && [ 0$(MEMORY_KB) -gt 4000000 ] && \
	! grep -q ' /dev/shm .*noexec' /proc/mounts && echo yes),yes)
test test-long test-native: export TMPDIR := /dev/shm
endif

# Tests start hundreds of processes: what one of them has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

# Stamps: a set-up that was done for these very lock files is not done again.
RUN := $(VENV)/run.stamp
DEV := $(VENV)/dev.stamp
SPARK := $(VENV)/spark.stamp
COLLECTED := $(VENV)/collected.stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup up demo spark native compiler native-clean test tests test-native test-long test-s3 test-msk test-image check dist sbom audit fuzz soak java kafka previous old-kafka old-postgres helm lint style types unit bench openapi client cli settings lock clean

help: ## say what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		awk -F '|' '{ printf "make %-11s %s\n", $$1, $$2 }'

setup: $(RUN) ## build .venv with the angelia command
	@echo "Ready: $(BIN)/angelia --help"

up: $(RUN) ## run the whole service on this machine, until Ctrl-C
	@exec $(BIN)/angelia up $(ARGS)

demo: $(RUN) ## publish a stream of events, and account for every delivery
	@exec $(BIN)/angelia demo $(ARGS)

spark: $(SPARK) ## run a Spark runner beside the service, until Ctrl-C; needs Java 17 or newer
	@exec $(BIN)/angelia spark

# Where `app.native` looks for what is compiled, and what it compares: `$(call native,FOLDER)`.
native_value = $(BIN)/python -c 'from app import native; print(native.$(1))'

# The digest is taken first: an edit while it compiles makes it outdated.
native: compiler $(DEV) ## compile the hot path in place, by mypyc and a C compiler; edited sources run until the next time
	@[ "$$($(call native_value,is_current()))" = True ] || { set -e; rm -rf build/native; \
		digest=$$($(call native_value,sources_digest())); folder=$$($(call native_value,FOLDER)); \
		ANGELIA_NATIVE=1 $(BIN)/python setup.py --quiet build_ext \
			--build-lib "$$folder" --build-temp build/native/c; \
		printf %s "$$digest" >"$$folder/sources.sha256"; }
	@echo "The hot path is compiled, in build/native"

compiler: | $(BIN)/python
	@command -v $(CC) >/dev/null && [ -f "$$($(BIN)/python -c "$(PYTHON_H)")" ] || \
		{ echo 'make native needs a C compiler and Python.h: sudo apt-get install -y gcc python3-dev'; exit 1; }

PYTHON_H := import sysconfig; print(sysconfig.get_path('include') + '/Python.h')

native-clean: ## remove what make native has compiled
	rm -rf build/native

# NATIVE=1: the tests run on the compiled hot path, else on the sources, compiled or not.
ifdef NATIVE
tests test-long unit: native
endif
PYTEST := ANGELIA_INTERPRETED=$(if $(NATIVE),0,1) $(BIN)/python -m pytest

# With --jobs=2, as in CI, the tests begin while types are still checked; else after all checks.
test: java lint tests ## everything: checks, then the tests on real servers

tests: kafka $(COLLECTED)
	$(PYTEST) $(PARALLEL) $(ARGS)

test-long: compiler java lint kafka $(COLLECTED) old-kafka old-postgres previous helm ## the same and all that takes long: each log, killed Spark runners, more random cases
	$(PYTEST) $(PARALLEL) -m 'long or not long' --hypothesis-profile thorough $(ARGS)
	$(if $(ARGS),,$(MAKE) test-native)

# What a compiled hot path could break. Compiling takes a minute of CPU: too long for each `make test`.
test-native: native kafka ## unit, contract, worker and crash tests on the compiled hot path
	ANGELIA_INTERPRETED=0 $(BIN)/python -m pytest $(PARALLEL) tests/unit tests/contract \
		tests/integration/worker tests/e2e/test_crashes.py $(ARGS)

check: lint unit ## what needs no server: format, lint, types, imports, unit and architecture tests

# Said before anything is downloaded: what is missing, where it cannot be installed from here.
java:
	@{ java -version 2>&1 | grep -Eq '"(1[7-9]|[2-9][0-9])' && command -v javac >/dev/null && \
		command -v mvn >/dev/null && { command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; } && \
		{ command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; } && \
		ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && \
		{ command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || \
		command -v google-chrome; } >/dev/null; } || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || \
		{ echo 'The tests run a real Kafka, a real Spark, a publisher in Java, nginx, PostgreSQL, pgbouncer'; \
		echo 'and Chromium: a JDK from 17 on, Maven and these. Install them:'; \
		echo '  sudo apt-get install -y openjdk-17-jdk-headless maven nginx postgresql pgbouncer' \
		'chromium-headless-shell'; exit 1; }

kafka: java $(DEV)
	$(BIN)/python -m tests.servers.kafka install
	$(BIN)/python -m tests.servers.spark_kafka install
	$(BIN)/python -m tests.servers.nginx install
	$(BIN)/python -m tests.servers.debian_postgres install
	$(BIN)/python -m tests.servers.browser install

# Needs git and the history: `make test` runs without both.
previous: $(DEV)
	$(BIN)/python -m tests.servers.previous install

old-kafka: kafka
	$(BIN)/python -m tests.servers.old_kafka install

old-postgres: java $(DEV)
	$(BIN)/python -m tests.servers.old_postgres install

helm: $(DEV)
	$(BIN)/python -m tests.servers.helm install

# In two halves: with --jobs=2, as in CI, the types are checked beside all else.
lint: style types

style: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

# A fresh clone is checked once: to write the cache would take a quarter of the CPU time.
types: $(DEV)
	$(BIN)/mypy $(if $(CI),--cache-dir=/dev/null)

# Compiles what nearly all tests import, once. Else, each of the runners that start together would do it.
$(COLLECTED): $(DEV)
	-$(PYTEST) --collect-only --quiet tests/integration/api/health >/dev/null
	@touch $@

unit: $(DEV)
	$(PYTEST) tests/unit tests/architecture $(ARGS)

test-s3: kafka ## the archive on S3, beside `make test`: against an S3 of this machine (15 MB of jars, 160 MB of moto)
	$(BIN)/python -m tests.servers.spark_s3 install
	$(BIN)/python -m tests.servers.s3 install
	$(PYTEST) tests/spark -o 'python_files=s3_*.py' $(ARGS)

test-msk: kafka ## logins at Amazon MSK, beside `make test`: by Amazon's own packages (15 MB, and 10 MB of jars)
	$(BIN)/python -m tests.servers.msk install
	$(BIN)/python -m tests.servers.spark_msk install
	$(PYTEST) tests/integration/log tests/spark -o 'python_files=msk_*.py' $(ARGS)

test-image: kafka ## build both images without a container engine, and run them: root, 10 minutes, 5 GB
	$(BIN)/python -m tests.servers.images install
	$(PYTEST) tests/images -o 'python_files=image_*.py' -rP $(ARGS)

bench: kafka ## measure; prints figures, and fails no test on time
	$(BIN)/python -m pytest tests/benchmarks -o 'python_files=bench_*.py' -o 'norecursedirs=.* build' \
		--timeout=600 -s $(ARGS)

openapi: $(DEV) ## write openapi.yaml from the code
	$(BIN)/python -m tests.architecture.openapi_file

client: $(DEV) ## make the Python client for threads from that for asyncio
	$(BIN)/python -m tests.architecture.sync_client

cli: $(DEV) ## write docs/cli.md from the commands
	$(BIN)/python -m tests.architecture.cli_page

settings: $(DEV) ## write docs/settings.md from the settings
	$(BIN)/python -m tests.architecture.settings_page

DIST := dist
# What users get and no more: the wheel and what it needs.
SHIPPED := $(DIST)/shipped

# -P: the folder build/ is not the tool.
dist: $(DEV) ## build the wheel and the sdist into dist/
	rm -f $(DIST)/angelia-*
	$(BIN)/python -P -m build --outdir $(DIST) .

sbom: dist ## the same, with an SBOM (CycloneDX) and the licences of all that is installed with the wheel
	$(BIN)/python -m venv --clear --without-pip $(SHIPPED)
	PIP_PYTHON=$(SHIPPED)/bin/python $(PIP) --require-hashes --no-deps \
		--requirement requirements-spark.lock
	PIP_PYTHON=$(SHIPPED)/bin/python $(PIP) --no-deps $(DIST)/angelia-*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file $(DIST)/angelia.cdx.json $(SHIPPED)/bin/python
	$(BIN)/pip-licenses --python $(SHIPPED)/bin/python --ignore-packages angelia --with-system \
		--from=mixed --format=plain-vertical --with-urls --no-license-path \
		--with-license-file --with-notice-file \
		--output-file $(DIST)/THIRD-PARTY-LICENSES.txt
	rm -rf $(SHIPPED)

audit: $(DEV) ## known weaknesses, secrets, bandit, ages of locks, what came since the version before; needs git and the network
	$(BIN)/python -m tests.supply $(ARGS)

# Minutes for each target.
MINUTES ?= 10

fuzz: $(DEV) ## try bytes that nobody thought of on all that reads those of others: make fuzz MINUTES=1 ARGS="--only avro"
	$(BIN)/python -m tests.fuzz install
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

soak: MINUTES = 120
soak: kafka ## run a service on Kafka for two hours, with churn, and judge what grows: make soak MINUTES=60 ARGS="--rate 100"
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

lock: $(DEV) ## pin the newest versions that pyproject.toml allows
	$(LOCK) --output-file requirements.lock
	$(LOCK) --output-file requirements-spark.lock --constraint requirements.lock --extra spark
	$(LOCK) --output-file requirements-dev.lock --constraint requirements-spark.lock \
		--extra spark --group dev
	$(subst pyproject.toml,tests/servers/s3.in,$(LOCK)) --output-file tests/servers/s3.lock
	$(subst pyproject.toml,tests/servers/msk.in,$(LOCK)) --output-file tests/servers/msk.lock
	$(subst pyproject.toml,tests/fuzz/atheris.in,$(LOCK)) --output-file tests/fuzz/atheris.lock

LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command 'make lock'

clean: ## remove .venv, caches and the embedded profile's data
	rm -rf $(VENV) .angelia build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Angelia needs Python 3.11 or newer: make setup PYTHON=python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes --no-deps --requirement requirements.lock
	$(PIP) --no-deps --editable .
	@touch $@

$(SPARK): requirements-spark.lock $(RUN)
	$(PIP) --require-hashes --no-deps --requirement requirements-spark.lock
	@touch $@

# All of $(RUN) and $(SPARK) as well. Where uv reaches no registry, as behind a mirror that only pip was told of,
# pip goes on.
$(DEV): requirements-dev.lock requirements.lock pyproject.toml | $(BIN)/python
	sed -n '/^uv==/,/# via/p' requirements-dev.lock | $(PIP) --require-hashes --no-deps --requirement /dev/stdin
	$(call by_uv,--require-hashes --no-deps --requirement requirements-dev.lock)
	$(call by_uv,--no-deps --editable .)
	@touch $(RUN) $(SPARK) $@

by_uv = $(UV) $(1) || $(PIP) $(1)
