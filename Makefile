# Every target sets up what it needs; `make` alone lists them.
PYTHON_IN_VENV := .venv/bin/python
SHELL := /bin/sh
# A test that hangs fails after twenty minutes, and says where it hangs.
IN_THREE := $(PYTHON_IN_VENV) -m pytest -n 3 --no-loadscope-reorder -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true
# Where the environment forbids to keep bytecode, as in many images, each of the hundreds of
# processes that tests and demo start would compile all that it imports: seconds of it for Airflow.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install test test-whole test-cluster test-unit test-spark test-matrix test-spark-matrix parity parity-changed parity-state invent faults airflow-faults check demo demo-kafka servers up docker-up bench bench-check screenshots docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-17s %s\n", $$1, $$2}'

install: ## make .venv from uv.lock, with Java where none is found
	@scripts/setup.sh

test: install ## the tests, in three processes; of the dearest families a share, drawn by the code
	$(IN_THREE) --sampled

test-whole: install ## every test
	$(IN_THREE)

test-cluster: install ## queries on clusters: YARN with HDFS, Spark standalone, several hosts, a stand-in of Kubernetes; an hour; PUBLISH=1
	$(PYTHON_IN_VENV) -m pytest -m cluster tests/cluster

test-unit: install ## the tests that need no Spark and no Airflow processes
	$(PYTHON_IN_VENV) -m pytest -m "not spark and not airflow and not system and not cluster"

test-spark: install ## the tests on a real Spark
	$(PYTHON_IN_VENV) -m pytest -m spark

test-matrix: install ## import, doctor and unit tiers on Airflow 3.1, 3.2 and 3.3, on Python 3.10, 3.11 and 3.13
	scripts/test_matrix.sh

test-spark-matrix: install ## the tests on Spark, ends of types and random trees of expressions, on Spark 4.1 and 4.3; an hour; TREES=5000 SEED=1
	scripts/test_spark_matrix.sh

parity: install ## every expression beside Spark over a million generated values; writes docs/expressions.md
	$(PYTHON_IN_VENV) -m tests.parity

parity-changed: install ## the same for what has changed since: a function that you have added
	$(PYTHON_IN_VENV) -m tests.parity --changed

parity-state: install ## queries with state beside Spark's micro-batches; SEED=7 gives their input, RANDOM=300 random ones
	$(PYTHON_IN_VENV) -m tests.parity.stateful --seed $(or $(SEED),7) $(if $(RANDOM),--random $(RANDOM))

invent: install ## random trees of expressions, and queries of them, beside Spark; TREES=2000 QUERIES=100 SEED=1
	$(PYTHON_IN_VENV) -m tests.parity.invented --trees $(or $(TREES),2000) --seed $(or $(SEED),1)
	$(PYTHON_IN_VENV) -m tests.parity.invented.whole --pipelines $(or $(QUERIES),100) --seed $(or $(SEED),1)

check: install ## format, lint, types, import contracts, docker/
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	scripts/lint_docker.sh

faults: install ## kills, power losses, suspended drivers: what was lost or repeated; LEVELS="L0,L1": these
	$(PYTHON_IN_VENV) -m tests.faults --publish $(if $(LEVELS),--levels "$(LEVELS)")

airflow-faults: install ## Airflow's processes, tasks and queries killed and suspended: one query, no orphan
	$(PYTHON_IN_VENV) -m tests.airflow_faults --publish

demo: install ## real departures through a continuous query that real Airflow processes run
	$(PYTHON_IN_VENV) scripts/demo.py

demo-kafka: install ## the same departures: Kafka to Kafka to Delta, two queries, every row compared
	$(PYTHON_IN_VENV) scripts/demo_kafka.py

servers: install ## Kafka, S3, PostgreSQL and others on this machine, to play with, until Ctrl-C
	$(PYTHON_IN_VENV) -m tests.servers

up: install ## Airflow with the example DAGs; prints the address and the login
	$(PYTHON_IN_VENV) -m scripts.local_airflow up

docker-up: ## Airflow on PostgreSQL beside a Spark cluster, in containers
	docker/up.sh

bench: install ## benchmarks beside Spark's own modes and other engines; writes docs/performance.md; ONLY=state,peers
	$(PYTHON_IN_VENV) -m bench --publish $(if $(ONLY),--only $(ONLY))

bench-check: install ## the same for a shorter time: which published ratio has fallen by more than 20 %; ONLY=state
	$(PYTHON_IN_VENV) -m bench --check $(if $(ONLY),--only $(ONLY))

screenshots: install ## the pictures of the page, of queries that run; needs Chromium
	$(PYTHON_IN_VENV) scripts/screenshots.py

docs: install ## the documentation as a site: build/site/index.html, whose links and blocks are checked
	NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_VENV) -m mkdocs build --strict
	$(PYTHON_IN_VENV) -m pytest -q tests/site

clean: ## remove everything that was made here, .venv too
	rm -rf .venv .uv .matrix .peers .demo .demo-kafka .up build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
