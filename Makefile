# The one place for what people and CI run. `make` alone shows the list.

# Another Python than python3: make test PYTHON=python3.12
PYTHON ?= python3
export PYTHON
VENV := .cache/venv/bin
# Where `make install` puts the C library
PREFIX ?= /usr/local
# More arguments for tools/run-tests
TEST_ARGS ?=
# and for tests/fuzz
FUZZ_ARGS ?=

RUN_TESTS = $(PYTHON) tools/run-tests $(TEST_ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo demo-node test bench fmt clean prerequisites test-rust test-python test-node test-conformance check-format check-clippy check-docs \
	check-python check-stubs check-purity check-api check-licences storm kills faults fuzz test-c test-go header install sim mutations models miri test-kotlin

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: prerequisites  ## a server that is cut off and killed, and a client and a receiver that lose nothing
	@$(PYTHON) tools/python-env
	@$(VENV)/python demo

demo-node: prerequisites  ## the same with a server in TypeScript, and one in each language after the other on one file
	@$(PYTHON) tools/python-env
	@$(PYTHON) tools/node-env
	@$(VENV)/python demo --node

test:  ## every test and check below, with a summary
	@command -v $(PYTHON) >/dev/null || tools/check-prerequisites --test --node
	@$(RUN_TESTS)

test-rust:  ## Rust tests and doc tests
	@$(RUN_TESTS) rust-tests

test-python:  ## Python tests, of the package and in tests/, and of the MCP adapter on every SDK
	@$(RUN_TESTS) python-tests python-tests-mcp1 python-tests-fastmcp

test-node:  ## the npm package's tests
	@$(RUN_TESTS) node-tests

test-c:  ## the C ABI's tests: the header, every export, the examples under sanitizers and valgrind
	@$(RUN_TESTS) c-header c-tests

test-go:  ## the Go packages' tests, on the C library
	@$(RUN_TESTS) go-tests

test-kotlin:  ## the Kotlin binding (experimental): smoke test and vectors on the JVM; not in `make test` (5 minutes at first)
	@$(PYTHON) tools/kotlin

test-conformance:  ## the vectors and scenarios of tests/vectors on every surface, with a table
	@$(RUN_TESTS) conformance

storm:  ## 100,000 deliveries to 100 endpoints that fail at random, and three kills (20 minutes); `make test` runs a small one
	TIDINGS_STORM=100000,100 cargo test --release -p tidings-kill --test storm

kills:  ## 1,000 servers killed (-9) at each step of a call's way (10 minutes); `make test` kills 260
	TIDINGS_KILLS=1000 cargo test --locked -p tidings-kill --test kill

models:  ## every order in which threads can meet at the hub's signal and inbox, by loom (2 minutes)
	CARGO_TARGET_DIR=target/models cargo test --locked --manifest-path tests/models/Cargo.toml

faults: kills storm models  ## the long runs of tests/faults/README.md (40 minutes)

fuzz:  ## look for inputs that break a promise: make fuzz FUZZ_ARGS="--minutes 1 cursor"; `make test` replays the corpus
	$(PYTHON) tests/fuzz $(FUZZ_ARGS)

header:  ## writes include/tidings.h from bindings/c, by the pinned cbindgen
	CARGO_TARGET_DIR=target/header cargo run --quiet --locked --manifest-path tools/header/Cargo.toml

# rustup toolchain install nightly --component miri,rust-src
miri:  ## the C binding's exports under Miri, which sees undefined behaviour; needs a nightly toolchain
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked -p tidings-c --lib

install:  ## the C library, built for release: make install PREFIX=/usr/local
	@tools/install-c --prefix $(PREFIX)

# One run with its trace: make sim SEED=7
SEED ?=
CRASHES ?= 10000
sim:  ## 10,000 simulated crashes of the real hub on virtual time, checked step by step (10 minutes); `make test` runs 100
	cargo run --quiet --locked -p tidings-sim -- $(if $(SEED),--seed $(SEED),--crashes $(CRASHES))

mutations:  ## breaks twelve rules of the core, one at a time, and shows the vectors that fail (20 minutes)
	$(PYTHON) tests/mutations

check-format:  ## formatting of Rust and Python (`make fmt` applies it)
	@$(RUN_TESTS) rust-format python-format

check-clippy:  ## clippy, warnings are errors
	@$(RUN_TESTS) rust-lints

check-docs:  ## Rust documentation, warnings are errors
	@$(RUN_TESTS) rust-docs

check-python:  ## Python lints and the package's types
	@$(RUN_TESTS) python-lints python-types

check-stubs:  ## the extension module and its stub say the same
	@$(RUN_TESTS) stubs

check-purity:  ## core/proto has no effects, and nothing depends on what it does not use
	@$(RUN_TESTS) purity unused

check-api:  ## what the packages offer is what api/ lists (tools/api.py --write after a change that is meant)
	@$(RUN_TESTS) api

check-licences:  ## licences and sources of all that comes along (deny.toml)
	@$(RUN_TESTS) licences

bench: prerequisites  ## the benches, beside their peers
	@bench/run

fmt:  ## format Rust and Python
	cargo fmt --all
	@$(PYTHON) tools/python-env
	$(VENV)/ruff check --fix --quiet .
	$(VENV)/ruff format .

clean:  ## remove everything that was built
	rm -rf target .cache .pytest_cache .mypy_cache .ruff_cache python/dist python/tidings/_native*.so \
		node/node_modules node/dist node/native node/packages node/examples/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

prerequisites:  ## what the machine must have, and how to get what is missing
	@tools/check-prerequisites
