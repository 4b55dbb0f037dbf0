# Each command sets up all it needs in .venv, on any machine with Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
# In memory where there is room: no test takes the power away, and most of them wait for a disk.
SCRATCH := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] \
	2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})
PYTEST := TMPDIR=$(SCRATCH) $(BIN)/pytest --numprocesses auto --dist worksteal

.PHONY: demo demo-postgres test check prove chaos mutants bench plots clean

demo: .venv/ready
	$(BIN)/runjournal demo

# On a Postgres server that is started for it, and stopped again.
demo-postgres: .venv/ready
	$(BIN)/python -m runjournal.adapters.demo.embedded_postgres --workers 4

test: .venv/ready
	$(PYTEST)

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy domain projections adapters __init__.py
	$(BIN)/lint-imports

# The slow proofs at full length.
prove: .venv/ready
	RUNJOURNAL_PROVE=1 $(PYTEST)

# So many minutes of kills, crashes and a broken network on each backend, and the proof afterwards.
MINUTES ?= 5
chaos: .venv/ready
	RUNJOURNAL_CHAOS_MINUTES=$(MINUTES) TMPDIR=$(SCRATCH) $(BIN)/pytest -s tests/chaos

# Change domain/ in every place, one at a time: a test must fail. MUTANTS='runjournal.domain.run.*'
# looks at one module. The copy has the layout that mutmut knows.
JOBS ?= 2
mutants: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,mutants]'
	rm -rf build/mutants/src build/mutants/tests
	mkdir -p build/mutants/src/runjournal
	cp -r __init__.py domain projections adapters build/mutants/src/runjournal
	cp -r tests pyproject.toml build/mutants
	cd build/mutants && TMPDIR=$(SCRATCH) nice ../../$(BIN)/mutmut run --max-children $(JOBS) $(MUTANTS)
	cd build/mutants && ../../$(BIN)/python ../../tools/surviving_mutants.py ../../docs/mutants.md

# The table of the README, and the plots of docs/performance.md: QUICK=1 for a glance, WRITE=1 to put
# them there.
BENCH := $(if $(QUICK),--quick) $(if $(WRITE),--write)
bench: .venv/ready
	$(BIN)/python -m benchmarks.table $(BENCH)

plots: .venv/ready
	$(BIN)/python -m benchmarks.growing $(BENCH)

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
