# `make demo` and `make test` are all that a newcomer needs. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.PHONY: demo quick test lint bench bench-peers clean java browser postgres network

$(BIN)/searchveil: pyproject.toml
	@echo "Setting up $(VENV) (a minute or two, once) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lab]'
	@touch $@

$(VENV)/.test-tools: pyproject.toml $(BIN)/searchveil
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@

# Spark needs a Java 17; nothing is installed where one is there already.
java:
	@java -version 2>&1 | grep -q 'version "\(17\|21\)' || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq openjdk-17-jre-headless )

# The report is looked at in a Chromium; nothing is installed where one is there already.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium )

# A crowd's server may keep its reports in PostgreSQL, and the tests start one of their own.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq postgresql )

# Collab is tried with a clock that is wrong and a cable that is pulled; without these tools those tests are skipped.
network:
	@( command -v faketime && command -v ip ) >/dev/null 2>&1 || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq faketime iproute2 )

demo: $(BIN)/searchveil
	@$(BIN)/searchveil tour --out demo

lint: $(VENV)/.test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The inner loop: four fifths of the tests, which need neither Spark nor a browser and take half a second at most.
quick: $(VENV)/.test-tools lint
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not slow and not spark'

# More workers than cores: much of the time goes into waiting for processes, Java and browsers.
test: $(VENV)/.test-tools java browser postgres network lint
	$(BIN)/pytest -n 4 --dist worksteal

bench: $(VENV)/.test-tools
	$(BIN)/python benchmarks/release.py --items query,pair,keyword
	$(BIN)/python benchmarks/release.py --method weighted
	$(BIN)/python benchmarks/release.py --items query,pair,keyword --format aol
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/safelog.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/sampling_quality.py
	$(BIN)/python benchmarks/sampling_individual.py
	$(BIN)/python benchmarks/sampling_individual.py --speed
	$(BIN)/python benchmarks/walk.py
	$(BIN)/python benchmarks/collab.py
	$(BIN)/python benchmarks/collab.py --sums
	$(BIN)/python benchmarks/crowd.py oprf
	$(BIN)/python benchmarks/crowd.py intake
	$(BIN)/python benchmarks/crowd.py aggregate --reports 1000000

bench-peers: $(VENV)/.test-tools
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) .venv-* demo .mypy_cache .ruff_cache .pytest_cache
