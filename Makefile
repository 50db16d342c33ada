.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
CASES ?= 2000
# The tests of the whole stack that `make test` runs: those that a change breaks most likely.
FIRST := $(addprefix tests/stack/test_,dataframe.py pipeline_spark.py repeated_batch.py session.py)
# The tests of tests/processes that start no job.
QUICK := tests/processes/test_page.py tests/processes/test_slopes.py
# PART=0, 1 or 2 takes a third of the tests of faults, since all of them take two fifths of the time of `test-all`.
FAULTS := $(sort $(wildcard tests/faults/test_*.py))
ifdef PART
FAULTS := $(shell printf '%s\n' $(FAULTS) | awk 'NR % 3 == $(PART)')
endif
BESIDE := -n 3 --dist loadfile --no-loadscope-reorder
SEED := $(or $(SEED),$(shell date +%s))

.PHONY: help
help: ## List all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

# Modules are compiled when they are first imported, since to compile all of them took 47 of 96 s. A caller who forbids
# Python to keep what it has compiled would wait 2 s in every start of every process.
unexport PYTHONDONTWRITEBYTECODE

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(READY) ## Make the Python environment

.PHONY: demo
demo: $(READY) ## Run the whole warehouse here and verify it: make demo ARGS="--minutes 2 --seed 7"
	$(BIN)/endmark demo $(ARGS)

.PHONY: test
test: $(READY) test-system lint ## Set up, then run units, types, oracle, and the first tests of the whole stack
	$(BIN)/pytest $(BESIDE) --hypothesis-profile=ci $(ARGS) $(FIRST) tests/damage/test_page.py $(QUICK) tests/oracle tests/simulation tests/unit tests/tidy jobs papers benchmarks

.PHONY: test-all
test-all: $(READY) test-system ## Run the other tests of the whole stack, and those of faults; PART=0, 1 or 2: a third of these
	$(BIN)/pytest $(BESIDE) $(ARGS) $(FIRST:%=--ignore=%) $(QUICK:%=--ignore=%) $(FAULTS) tests/damage tests/processes tests/upgrade tests/stack tests/browser

.PHONY: oracle
oracle: $(READY) test-system ## Run every operator on CASES random histories (2000), then with faults that the oracle must notice
	@echo "repeat with: make oracle CASES=$(CASES) SEED=$(SEED)"
	ENDMARK_ORACLE_CASES=$(CASES) $(BIN)/pytest tests/oracle tests/unit/verify/test_random_worlds.py --timeout=0 --hypothesis-seed=$(SEED)
	PYTHONPATH=tests $(BIN)/python -m support.mutation

.PHONY: faults
faults: $(READY) ## Run simulated jobs with faults on all cores; one seed shows its trace: make faults ARGS="--seeds 200000 --seed 7"
	@mkdir -p var
	PYTHONPATH=tests $(BIN)/python -m simulation --result var/simulated_faults.json $(ARGS)

.PHONY: faults-sown
faults-sown: $(READY) ## Sow faults into the sources; the simulation must notice each within 500 seeds
	PYTHONPATH=tests $(BIN)/python -m simulation.mutants

.PHONY: faults-files
faults-files: $(READY) test-system ## Damage checkpoints, tables and state of real jobs; a job must recover, or refuse and name the file
	@mkdir -p var
	PYTHONPATH=tests $(BIN)/python -m damage --result var/damaged_files.json $(ARGS)

.PHONY: faults-processes
faults-processes: $(READY) test-system ## Kill, stop, starve and confuse the processes around real jobs: ARGS='--fault "killed" --seed 7', --walk 100, --soak 2
	@mkdir -p var
	PYTHONPATH=tests $(BIN)/python -m processes --result var/broken_processes.json $(ARGS)

.PHONY: keep-version
keep-version: $(READY) test-system ## Keep jobs of this version in tests/upgrade/versions; later versions must go on with them
	PYTHONPATH=tests $(BIN)/python -m upgrade

.PHONY: test-spark
test-spark: CASES = 20
test-spark: $(READY) ## Run CASES random pipelines of each preset (20) through Spark, restarted between batches
	@echo "repeat with: make test-spark CASES=$(CASES) SEED=$(SEED)"
	ENDMARK_SPARK_CASES=$(CASES) ENDMARK_SPARK_SEED=$(SEED) $(BIN)/pytest tests/stack/test_pipeline_spark.py

.PHONY: test-knobs
test-knobs: $(READY) ## Turn 1,000 knobs by 8 clients and kill the job 3 times (ARGS=--seed=7)
	PYTHONPATH=tests $(BIN)/python -m stack.knob_storm $(ARGS)

.PHONY: test-attacks
test-attacks: $(READY) test-system ## 10,000 hostile inputs against a running job and its sidecar (ARGS=--seed=7)
	PYTHONPATH=tests $(BIN)/python -m attacks.hostile_inputs $(ARGS)

.PHONY: test-system
test-system: ## Install the Debian packages of the tests: MariaDB, Chromium, Prometheus, docker-compose
	infra/install-test-system.sh

.PHONY: test-bench
test-bench: $(READY) test-system ## Run the measurements that start Spark, small
	$(BIN)/pytest $(ARGS) tests/benchmarks

.PHONY: test-compose
test-compose: $(READY) ## Run docker-compose.yml in real containers and kill every part (ARGS=--quick: none), as root
	infra/install-test-system.sh containers
	PYTHONPATH=tests $(BIN)/python -m containers.stack_restarts $(ARGS)

.PHONY: package
package: $(READY) ## Write the parts for spark-submit (docs/cluster.md) to var/package
	PATH="$(CURDIR)/$(BIN):$$PATH" infra/package.sh var/package

.PHONY: test-cluster
test-cluster: package ## Run the package on a Spark cluster of processes and kill each part; writes docs/cluster.md
	PYTHONPATH=tests $(BIN)/python -m cluster.packaged_job var/package

.PHONY: test-connect
test-connect: package test-system ## Run the package with three secured brokers, Avro, S3 and MariaDB, and kill each; writes docs/cluster.md
	PYTHONPATH=tests $(BIN)/python -m cluster.connected_job var/package

.PHONY: test-runbook
test-runbook: $(READY) test-system ## Run every command of docs/runbook.md, in order
	PYTHONPATH=tests $(BIN)/python -m deploy.runbook

.PHONY: test-tutorial
test-tutorial: $(READY) ## Follow docs/first-pipeline.md with a clock, from a wheel, a tool of uv and a clone, with nothing downloaded
	PYTHONPATH=tests $(BIN)/python -m deploy.tutorial

.PHONY: test-deploy
test-deploy: $(READY) ## Check the Helm chart by the schemas of its kinds; run Airflow's DAG here and on a Spark cluster
	$(PYTHON) -m venv var/deploy && var/deploy/bin/pip install --quiet -r tests/deploy/requirements.txt
	PYTHONPATH=tests var/deploy/bin/python -m deploy.chart $(BIN)/python
	$(PYTHON) -m venv var/airflow && var/airflow/bin/pip install --quiet -r tests/deploy/requirements-airflow.txt
	PYTHONPATH=tests $(BIN)/python -m deploy.dag var/airflow/bin/python

.PHONY: picture
picture: $(READY) test-system ## Each view of the dashboard, light, dark and small, from a demo; writes docs/pictures and var/pictures
	PYTHONPATH=tests $(BIN)/python -m browser.picture

.PHONY: lint
lint: $(READY) ## Check style, import rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(READY) ## Check types
	$(BIN)/mypy

.PHONY: format
format: $(READY) ## Format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(READY) ## Measure the stream join beside Spark's and Flink's (each bench also writes its page)
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks stream-join --json $(ARGS) > var/stream_join.json
	mv var/stream_join.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-small-batches
bench-small-batches: $(READY) ## Measure the stream join with batches of 1,000 rows, beside Spark's
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks stream-join --json --rows 500 --contender spark-heap --contender spark-rocksdb $(ARGS) > var/stream_join_small.json
	mv var/stream_join_small.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-nexmark
bench-nexmark: $(READY) ## Measure Nexmark's queries on frames beside Spark's own operators
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks nexmark --json $(ARGS) > var/nexmark.json
	mv var/nexmark.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-pipeline
bench-pipeline: $(READY) test-system ## Measure the whole pipeline beside Spark's own operators, Flink, Pathway and DuckDB
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks pipeline --json $(ARGS) > var/pipeline.json
	mv var/pipeline.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-connections
bench-connections: $(READY) test-system ## Measure the whole pipeline over TLS with a login, in Avro, and with tables in S3
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.connections $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-latency
bench-latency: $(READY) test-system ## Measure the time from arrival to Delta tables, at shares of the highest rate that a job keeps up with
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks latency --json $(ARGS) > var/latency.json
	mv var/latency.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-recovery
bench-recovery: $(READY) test-system ## Measure the time from start, or kill -9, to the first output, by stage
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks recovery --json $(ARGS) > var/recovery.json
	mv var/recovery.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-extremes
bench-extremes: $(READY) ## Measure the stream join alone: much state, a hot key, a million closings at once
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.extremes $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-nary
bench-nary: $(READY) ## Measure three streams on one key in one operator, beside a chain of two joins
	$(BIN)/python -m endmark_benchmarks.measurements.nary_join $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-three-streams
bench-three-streams: $(READY) test-system ## Measure three streams from Kafka to Delta beside Spark's chain of two joins
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks three-streams --json $(ARGS) > var/three_streams.json
	mv var/three_streams.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-lookup-alone
bench-lookup-alone: $(READY) test-system ## Measure a lookup alone from Kafka to Delta beside the same in Spark
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks lookup-alone --json $(ARGS) > var/lookup_alone.json
	mv var/lookup_alone.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-further-stage
bench-further-stage: $(READY) test-system ## Measure the cost of a further stage: rates, latency, and where time goes
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks further-stage --json $(ARGS) > var/further_stage.json
	mv var/further_stage.json benchmarks/results/
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-live-state
bench-live-state: $(READY) ## Measure the time of a batch by live rows
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.live_state $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-upserts
bench-upserts: $(READY) ## Measure an upsert of running groups beside the MERGE of delta-rs and Spark, and of a copied table; writes benchmarks/results
	$(BIN)/python -m endmark_benchmarks.measurements.upserts $(ARGS)

.PHONY: bench-state
bench-state: $(READY) ## Count the rows that the join keeps, and may keep, on the papers' workloads
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.state_bounds

.PHONY: bench-state-model
bench-state-model: $(READY) ## Rows in state beside the cost model and the paper's; writes docs/state.md
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.stream_join_model

.PHONY: bench-relation
bench-relation: $(READY) ## Measure every way to read a relation
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.relation $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-lookup
bench-lookup: $(READY) test-system ## Measure the lookup beside other ways in Spark and Flink (PART=_x: a part)
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks lookup-join --json $(ARGS) > var/lookup_join.json
	mv var/lookup_join.json benchmarks/results/lookup_join$(PART).json
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-lookup-map
bench-lookup-map: $(READY) test-system ## Measure every strategy of the lookup by size, skew, distance and memory (PART=_x: a part)
	@mkdir -p var
	$(BIN)/python -m endmark_benchmarks lookup-map --json $(ARGS) > var/lookup_map.json
	mv var/lookup_map.json benchmarks/results/lookup_map$(PART).json
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-hybridjoin
bench-hybridjoin: $(READY) ## HYBRIDJOIN beside MESHJOIN and INLJ, as its paper compares them; likewise, or by ARGS a part of it
	$(BIN)/python -m endmark_benchmarks.measurements.hybridjoin_rates $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-costs
bench-costs: $(READY) ## Measure the lookup's costs beside the predicted ones, its memory and its cache
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.cost_model $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_memory
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_cache
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-buffer
bench-buffer: $(READY) ## HYBRIDJOIN by the size of its disk buffer, and lone reads; writes benchmarks/results, then make papers ARGS="hj-6 hj-10a hj-10b"
	$(BIN)/python -m endmark_benchmarks.measurements.disk_buffer $(ARGS)

.PHONY: bench-agreement
bench-agreement: $(READY) ## Compare every lookup strategy's answers to a million rows with DuckDB's
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.lookup_agreement $(ARGS)

.PHONY: bench-cluster
bench-cluster: package test-system ## Measure CPU time and rates of one to eight executors, as root; writes docs/cluster.md
	PYTHONPATH=tests $(BIN)/python -m cluster.scale_out var/package

.PHONY: bench-sidecar
bench-sidecar: $(READY) test-system ## Measure the cost of a sidecar that answers 200 requests a second
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.sidecar $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: bench-profile
bench-profile: $(READY) ## Measure where the batches of a stream join spend their time
	PYTHONPATH=tests $(BIN)/python -m endmark_benchmarks.measurements.batch_profile $(ARGS)
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: schemas
schemas: $(READY) ## Write schemas/*.json from the models
	$(BIN)/python -m endmark.pipeline > schemas/pipeline.v1.json
	$(BIN)/python -m endmark.punctuation.json_shape > schemas/punctuation.v1.json

.PHONY: references
references: $(READY) ## Write the reference pages of docs/ from the code
	$(BIN)/python infra/docs/references.py

.PHONY: site
site: $(READY) ## Build the docs site in var/docs/site; a broken link is an error
	$(BIN)/python infra/docs/build_site.py

.PHONY: papers
papers: $(READY) ## The papers' experiments and figures; writes docs/operators (ARGS="mj-8 pw-9": these figures)
	$(if $(ARGS),,$(BIN)/python -m endmark_papers experiments --json > docs/operators/results.json)
	$(BIN)/python -m endmark_papers.experiments.page docs/operators
	$(BIN)/python -m endmark_papers figures $(ARGS)

.PHONY: docs
docs: papers ## Write docs/operators and docs/bench.md anew
	$(BIN)/python -m endmark_benchmarks.page.write benchmarks/results docs/bench.md

.PHONY: lock
lock: $(READY) ## Pin every Python package anew
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --python-version 3.11 \
	  --overrides infra/images/overrides.txt --generate-hashes --no-emit-index-url --no-header --quiet --upgrade -o requirements.lock

.PHONY: clean
clean: ## Remove the files that runs left behind
	rm -rf var .pytest_cache .mypy_cache .ruff_cache .hypothesis
