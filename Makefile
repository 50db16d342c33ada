.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
CASES ?= 2000
# The tests of the whole stack that `make test` runs: what a change breaks most likely, in two minutes.
FIRST := $(addprefix tests/stack/test_,crashes.py dataframe.py demo.py pipeline_spark.py repeated_batch.py session.py)
FIRST += $(addprefix tests/browser/test_,dashboard.py views.py)
BESIDE := -n 3 --dist loadfile --no-loadscope-reorder
SEED := $(or $(SEED),$(shell date +%s))

.PHONY: help
help: ## List everything
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(READY) ## Python environment with everything in it

.PHONY: demo
demo: $(READY) ## Run the whole warehouse here and verify it: make demo ARGS="--minutes 2 --seed 7"
	$(BIN)/endmark demo $(ARGS)

.PHONY: test
test: $(READY) test-system lint types ## All set-up, then units, oracle, and the first of the whole stack
	$(BIN)/pytest $(BESIDE) --hypothesis-profile=ci $(ARGS) tests/oracle tests/unit tests/tidy jobs papers benchmarks
	$(BIN)/pytest $(BESIDE) $(ARGS) $(FIRST)

.PHONY: test-all
test-all: $(READY) test-system ## The rest of the whole stack: outages, kills, neighbours, examples, each form of frames
	$(BIN)/pytest $(BESIDE) $(ARGS) $(FIRST:%=--ignore=%) tests/stack tests/browser

.PHONY: oracle
oracle: $(READY) test-system ## Every operator on CASES random histories (2000), then seeded faults it must notice
	@echo "repeat with: make oracle CASES=$(CASES) SEED=$(SEED)"
	ENDMARK_ORACLE_CASES=$(CASES) $(BIN)/pytest tests/oracle --timeout=0 --hypothesis-seed=$(SEED)
	PYTHONPATH=tests $(BIN)/python -m support.mutation

.PHONY: test-spark
test-spark: CASES = 20
test-spark: $(READY) ## CASES random pipelines of each preset (20) through Spark, restarted between batches
	@echo "repeat with: make test-spark CASES=$(CASES) SEED=$(SEED)"
	ENDMARK_SPARK_CASES=$(CASES) ENDMARK_SPARK_SEED=$(SEED) $(BIN)/pytest tests/stack/test_pipeline_spark.py

.PHONY: test-knobs
test-knobs: $(READY) ## 1,000 knobs turned by 8 clients while the job is killed 3 times (ARGS=--seed=7)
	PYTHONPATH=tests $(BIN)/python -m stack.knob_storm $(ARGS)

.PHONY: test-attacks
test-attacks: $(READY) test-system ## 10,000 hostile inputs against a running job and its sidecar (ARGS=--seed=7)
	PYTHONPATH=tests $(BIN)/python -m attacks.run $(ARGS)

.PHONY: test-system
test-system: ## Debian packages the tests use: MariaDB, Chromium, Prometheus, docker-compose
	infra/install-test-system.sh

.PHONY: test-bench
test-bench: $(READY) test-system ## The benches that start Spark, small
	$(BIN)/pytest $(ARGS) tests/benchmarks

.PHONY: test-compose
test-compose: $(READY) ## docker-compose.yml in real containers, every part killed (ARGS=--quick: none), as root
	infra/install-test-system.sh containers
	PYTHONPATH=tests $(BIN)/python -m containers.stack_restarts $(ARGS)

.PHONY: package
package: $(READY) ## What spark-submit takes to a cluster (docs/cluster.md), in var/package
	PATH="$(CURDIR)/$(BIN):$$PATH" infra/package.sh var/package

.PHONY: test-cluster
test-cluster: package ## The package on a Spark cluster of processes, each part killed; writes docs/cluster.md
	PYTHONPATH=tests $(BIN)/python -m cluster.packaged_job var/package

.PHONY: test-runbook
test-runbook: $(READY) test-system ## Every command of docs/runbook.md, in order
	PYTHONPATH=tests $(BIN)/python -m deploy.runbook

.PHONY: test-deploy
test-deploy: $(READY) ## Helm chart against the schemas of its kinds; Airflow's DAG, run twice
	$(PYTHON) -m venv var/deploy && var/deploy/bin/pip install --quiet -r tests/deploy/requirements.txt
	PYTHONPATH=tests var/deploy/bin/python -m deploy.chart
	$(PYTHON) -m venv var/airflow && var/airflow/bin/pip install --quiet -r tests/deploy/requirements-airflow.txt
	PYTHONPATH=tests $(BIN)/python -m deploy.dag var/airflow/bin/python

.PHONY: lint
lint: $(READY) ## Style, import rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(READY) ## Strict types
	$(BIN)/mypy

.PHONY: format
format: $(READY) ## Format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(READY) ## Stream join beside Spark's own and Flink's, as ratios; writes benchmarks/results and docs/bench.md
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks stream-join --json $(ARGS) > var/stream_join.json
	mv var/stream_join.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-nexmark
bench-nexmark: $(READY) ## Queries of Nexmark on frames beside Spark's own operators; likewise
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks nexmark --json $(ARGS) > var/nexmark.json
	mv var/nexmark.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-pipeline
bench-pipeline: $(READY) test-system ## Kafka to Delta tables beside Spark's own operators; likewise
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks pipeline --json $(ARGS) > var/pipeline.json
	mv var/pipeline.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-latency
bench-latency: $(READY) test-system ## Arrival to Delta tables, at shares of the highest rate that a job keeps up with; likewise
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks latency --json $(ARGS) > var/latency.json
	mv var/latency.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-recovery
bench-recovery: $(READY) test-system ## Start, or kill -9, to the first output, by stage; likewise
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks recovery --json $(ARGS) > var/recovery.json
	mv var/recovery.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-extremes
bench-extremes: $(READY) ## The stream join alone: much state, a hot key, a million closings at once; likewise
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.extremes $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-live-state
bench-live-state: $(READY) ## Time of a batch by how many rows are live; likewise
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.live_state $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-state
bench-state: $(READY) ## Rows in state against what may be held, on the papers' workloads; writes docs/state.md
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.state_bounds

.PHONY: bench-relation
bench-relation: $(READY) ## Rows and keys a second of every way to read a relation; writes benchmarks/results and docs/bench.md
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.relation $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-lookup
bench-lookup: $(READY) test-system ## Lookup beside other ways in Spark and Flink, as ratios; likewise, or a PART of it
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks lookup-join --json $(ARGS) > var/lookup_join.json
	mv var/lookup_join.json benchmarks/results/lookup_join$(PART).json
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-lookup-map
bench-lookup-map: $(READY) test-system ## Every strategy of the lookup over size, skew, distance and memory; likewise, or a PART of it
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks lookup-map --json $(ARGS) > var/lookup_map.json
	mv var/lookup_map.json benchmarks/results/lookup_map$(PART).json
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-headline
bench-headline: $(READY) ## HYBRIDJOIN beside MESHJOIN and INLJ, as its paper compares them; likewise, or by ARGS a part of it
	$(BIN)/python -m endmark_benchmarks.measurements.headline $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-costs
bench-costs: $(READY) ## Lookup: costs predicted and measured, memory, cache; likewise
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.cost_model $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_memory
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_cache
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-agreement
bench-agreement: $(READY) ## Every lookup strategy on a million rows against DuckDB's answers; writes benchmarks/results
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_agreement $(ARGS)

.PHONY: bench-cluster
bench-cluster: package test-system ## Records a second of one executor and of two; writes docs/cluster.md
	PYTHONPATH=tests $(BIN)/python -m cluster.rates var/package

.PHONY: bench-sidecar
bench-sidecar: $(READY) test-system ## What a sidecar that answers 200 requests a second costs its job; writes benchmarks/results and docs/bench.md
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.sidecar $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-profile
bench-profile: $(READY) ## Where the batches of a stream join spend their time; writes benchmarks/results and docs/bench.md
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.batch_profile $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: schemas
schemas: $(READY) ## Write schemas/*.json from the models
	$(BIN)/python -m endmark.pipeline > schemas/pipeline.v1.json
	$(BIN)/python -m endmark.punctuation.json_shape > schemas/punctuation.v1.json

.PHONY: papers
papers: $(READY) ## Run the papers' experiments, two minutes; writes docs/operators
	$(BIN)/python -m endmark_papers --json > docs/operators/results.json
	$(BIN)/python -m endmark_papers.experiments.page docs/operators

.PHONY: docs
docs: papers ## Write docs/operators and docs/bench.md anew
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: lock
lock: $(READY) ## Pin every Python package anew
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --python-version 3.11 \
	  --overrides infra/images/overrides.txt --generate-hashes --no-emit-index-url --no-header --quiet --upgrade -o requirements.lock

.PHONY: clean
clean: ## Remove what runs left behind
	rm -rf var .pytest_cache .mypy_cache .ruff_cache .hypothesis
