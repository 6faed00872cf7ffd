# forebay: `make help` lists the targets. The build environment itself is in scripts/env.sh.
SHELL := bash
# A failure on the left of a pipe fails the target.
.SHELLFLAGS := -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
RACE_PKGS   ?= ./store/... ./internal/... ./migration/... ./kv/... ./windowed/... ./session/... ./versioned/... ./changelog/... ./dsl/internal/... ./dsl/single
BENCH       ?= .
BENCH_PKGS  ?= ./...
ROWS        ?= 1000000
ROUNDS      ?= 5
FUZZTIME    ?= 30s
HANDOVERS   ?= 20
SEED        ?= 1
SEEDS       ?= 10
CYCLES      ?= 200
PUTS        ?= 10000000
export RACE_PKGS FUZZTIME CYCLES ROWS ROUNDS

WITH_ENV := scripts/env.sh

.PHONY: help deps env test run bench bench-profile microbench fuzz crash soak conformance lint interop interop-deps interop-dsl interop-handover broker-start broker-stop clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { gsub(/[$$][$$]/, "$$", $$2); printf "  make %-17s %s\n", $$1, $$2 }' Makefile
	@echo "ROCKSDB=system or ROCKSDB=/path/to/prefix uses a RocksDB of your own (see scripts/env.sh)."

deps: ## fetch what the build needs (again: does nothing)
	@scripts/setup.sh

env: deps ## print the build environment, for: eval "$$(make -s env)"
	@$(WITH_ENV)

test: deps lint ## lint, then all tests against a real broker, then the race detector (RACE_PKGS, GOTESTFLAGS)
	@scripts/test.sh

run: deps ## run the example (ORDERS, BROKERS)
	@$(WITH_ENV) go run ./examples/orders

bench: deps ## forebay beside raw RocksDB and Kafka Streams (ROWS, ROUNDS), into docs/bench
	@scripts/bench.sh

bench-profile: deps ## the same once, of forebay alone, keeping profiles in .deps/bench/profiles
	@mkdir -p .deps/bench/profiles
	@ROUNDS=1 scripts/bench.sh -rivals '' -profile .deps/bench/profiles -out .deps/bench/profiles

microbench: deps ## run the benchmarks of the packages (BENCH, BENCH_PKGS)
	@$(WITH_ENV) go test -run '^$$' -bench '$(BENCH)' -benchmem $(BENCH_PKGS)

fuzz: deps ## run every fuzz target for FUZZTIME (30s) each (FUZZ picks by name)
	@scripts/fuzz.sh

crash: deps ## kill processes that work on a store, CYCLES (200) times, and check what is left (SEED, GROUP)
	@scripts/crash.sh

conformance: deps ## random operations beside a model: 100,000 on every combination of every family
	@FOREBAY_OPS=1000000 $(WITH_ENV) go test -count=1 -v -timeout 0 -run '^(TestConformance|TestRandom)$$' ./versioned ./interop/replay | grep -vE '^ *(=== |--- PASS)'
	@FOREBAY_OPS=100000 $(WITH_ENV) go test -count=1 -v -timeout 0 -run '^TestConformance$$' ./windowed ./session | grep -vE '^ *(=== |--- PASS)'

soak: deps ## put PUTS (10000000) rows within a memory budget, and look at the memory
	@FOREBAY_PUTS=$(PUTS) $(WITH_ENV) go test -count=1 -v -timeout 0 -run '^TestMemory$$' ./internal/contract

lint: deps ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .) && { [ -z "$$unformatted" ] || { echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; } >&2; }
	@$(WITH_ENV) go vet ./...
	@$(WITH_ENV) go run $(STATICCHECK) ./...

interop: deps ## random records and scripts on Kafka Streams and forebay, compared (SEED, OPS per family, FAMILY, KAFKA, SCRIPT)
	@[ -n "$(FAMILY)$(KAFKA)$(SCRIPT)" ] || $(MAKE) interop-dsl SEEDS=1
	@SEED="$(SEED)" OPS="$(OPS)" FAMILY="$(FAMILY)" KAFKA="$(KAFKA)" SCRIPT="$(SCRIPT)" scripts/parity.sh

interop-deps: ## fetch Kafka Streams and compile its driver (again: does nothing)
	@scripts/interop.sh > /dev/null

interop-dsl: deps interop-deps ## random records through all topologies, beside Kafka Streams: SEEDS (10) times, from SEED (1)
	@FOREBAY_SEED=$(SEED) FOREBAY_SEEDS=$(SEEDS) FOREBAY_REQUIRE_BROKER=1 $(WITH_ENV) go test -count=1 -timeout 0 -run '^TestLiveDSL$$' ./dsl

interop-handover: deps ## hand state directories between forebay and Kafka Streams, HANDOVERS (20) times each way
	@FOREBAY_HANDOVERS=$(HANDOVERS) scripts/test.sh -timeout 0 -run '^TestHandover$$' ./interop/replay

broker-start: ## start a Kafka broker on loopback and print its address
	@scripts/broker.sh start

broker-stop: ## stop it
	@scripts/broker.sh stop

clean: ## remove test outputs
	@find . -name .git -prune -o -name .deps -prune -o -type f \( -name '*.test' -o -name '*.prof' -o -name '*.out' \) -exec rm -f {} +

distclean: clean broker-stop ## also remove everything that make deps fetched
	@rm -rf .deps
