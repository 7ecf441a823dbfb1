# What a developer and a build server call; each target does the set-up it needs.
# Without root and without sudo, a missing package is named in one apt-get line.

SHELL := /bin/bash
export PATH := $(PATH):/usr/sbin:/sbin:$(HOME)/.cargo/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)
# One feature set for all, so that nothing is compiled twice.
CARGO := cargo
NEED := e2e/need.sh
DENY_VERSION := 0.20.2

.PHONY: help setup lint test e2e e2e-loopback e2e-clients demo cloud-sim fuzz-api bench-data bench-api bench-cloud doc deny clean

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## install what building, testing and the offline scenario need
	@$(NEED) build e2e

lint: ## formatting and clippy, warnings are errors
	@$(NEED) build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p civ-sim --all-targets --features planted-faults -- -D warnings
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

test: ## unit, integration, contract and documentation tests of the workspace
	@$(NEED) build peers
	$(CARGO) test --locked --workspace --doc --quiet
	@if cargo nextest --version >/dev/null 2>&1; then \
		echo '$(CARGO) nextest run --locked --workspace --no-fail-fast'; \
		$(CARGO) nextest run --locked --workspace --no-fail-fast; \
	else \
		e2e/cargo-test.sh; \
	fi

e2e: ## the offline scenario with real packets; ONLY=name runs one
	@$(NEED) build e2e
	$(CARGO) build --locked --workspace
	$(TARGET)/debug/civ-e2e run $(if $(ONLY),--only $(ONLY))

e2e-loopback: ## the same on 127.0.0.0/8, for machines without namespaces
	@$(NEED) build e2e
	$(CARGO) build --locked --workspace
	$(TARGET)/debug/civ-e2e run --loopback $(if $(ONLY),--only $(ONLY))

.PHONY: e2e-checks
e2e-checks: ## every code of the checks, provoked by a real fault, from both binaries; ONLY=word
	@$(NEED) build peers e2e checks
	$(CARGO) build --locked -p civ-e2e -p civ-validator-agent -p civ-prober
	$(TARGET)/debug/civ-e2e checks $(if $(ONLY),--only $(ONLY))

.PHONY: e2e-crash
e2e-crash: ## kills, stops, full and broken disks, with the real programs; ONLY=name
	@$(NEED) build e2e
	$(CARGO) build --locked --workspace
	$(CARGO) test --locked -p civ-control-api --test crash
	$(TARGET)/debug/civ-e2e crash $(if $(ONLY),--only $(ONLY))

e2e-clients: ## the real openstack CLI and SDK against cloud-sim, compared with a real Neutron
	@$(NEED) build
	e2e/clients.sh

cloud-sim: ## a simulated cloud alone, on 127.0.0.1:9696; ARGS="--scenario FILE …", see --help
	@$(NEED) build
	@$(CARGO) build --locked --quiet -p civ-cloudsim
	@$(TARGET)/debug/cloud-sim $(ARGS)

.PHONY: e2e-openstack openstack
e2e-openstack: ## the client's suite and stories against a real Keystone and Neutron; ONLY=word
	@$(NEED) build e2e
	e2e/openstack.sh $(if $(ONLY),--only $(ONLY))

openstack: ## a real Keystone and Neutron on loopback, until Ctrl-D
	@$(NEED) build
	e2e/openstack.sh serve

demo: ## the stage of e2e, left running, with the status page on a loopback port
	@$(NEED) build e2e
	$(CARGO) build --locked --workspace
	$(TARGET)/debug/civ-e2e demo

fuzz-api: ## schemathesis against control-api and its own document; TIME=seconds REQUESTS=at-least
	@$(NEED) build
	e2e/fuzz-api.sh --max-time $(or $(TIME),900) --min-requests $(or $(REQUESTS),20000)

.PHONY: fuzz fuzz-brief
FUZZ_VERSION := 0.13.2
FUZZ_TARGETS = $(or $(ONLY),$(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))
FUZZ_TARGET_DIR := $(abspath $(TARGET))/fuzz

fuzz: ## random bytes for every parser of bytes from the network; TIME=seconds each, ONLY=target
	@$(NEED) build
	@cargo fuzz --version 2>/dev/null | grep -qxF 'cargo-fuzz $(FUZZ_VERSION)' \
		|| cargo install --locked cargo-fuzz --version $(FUZZ_VERSION)
	fuzz/run.sh '$(FUZZ_TARGET_DIR)' $(or $(TIME),60) $(FUZZ_TARGETS)

fuzz-brief: ## the same for 5 seconds each
	@$(MAKE) --no-print-directory fuzz TIME=5

BENCH_DATA := $(TARGET)/bench/large.db

bench-data: ## a large database for benches, the same for the same SEED; FILE=path puts it elsewhere
	@$(NEED) build
	$(CARGO) build --locked --release -p civ-control-api -p civ-bench
	$(TARGET)/release/civ-bench data $(or $(FILE),$(BENCH_DATA)) --seed $(or $(SEED),1)

bench-api: ## control-api at scale: figures to docs/PERFORMANCE.md and target/bench/api.json
	@$(NEED) build
	@test -f $(or $(FILE),$(BENCH_DATA)) || $(MAKE) --no-print-directory bench-data
	$(CARGO) build --locked --release -p civ-control-api -p civ-bench
	$(TARGET)/release/civ-bench api --data $(or $(FILE),$(BENCH_DATA)) \
		--server $(TARGET)/release/control-api \
		--json $(TARGET)/bench/api.json --document docs/PERFORMANCE.md

SDK_VERSION := 4.22.0
SDK := $(TARGET)/openstacksdk

bench-cloud: ## listing floating IPs beside openstacksdk and curl: figures to docs/PERFORMANCE.md
	@$(NEED) build
	@for tool in python3 curl jq; do command -v $$tool >/dev/null \
		|| { echo "bench-cloud needs $$tool: apt-get install python3-venv curl jq"; exit 1; }; done
	@test -x $(SDK)/bin/python || python3 -m venv $(SDK)
	@$(SDK)/bin/python -c 'import openstack' 2>/dev/null \
		|| $(SDK)/bin/pip install --quiet openstacksdk==$(SDK_VERSION)
	$(CARGO) build --locked --release -p civ-bench
	$(TARGET)/release/civ-bench cloud --python $(SDK)/bin/python \
		--json $(TARGET)/bench/cloud.json --document docs/PERFORMANCE.md

.PHONY: abuse
abuse: ## hostile clients beside ordinary ones: figures to docs/PERFORMANCE.md
	@$(NEED) build
	$(CARGO) build --locked --release -p civ-control-api -p civ-bench
	$(TARGET)/release/civ-bench abuse --server $(TARGET)/release/control-api \
		--json $(TARGET)/bench/abuse.json --document docs/PERFORMANCE.md

.PHONY: sim sim-planted
# `planted-faults` saves a build where both targets are made; none is active in `sim`.
SIM_FEATURES := simulation
sim: ## the product under random stories in one thread each, every rule checked; SEEDS=n, FROM=n
	@$(NEED) build
	$(CARGO) test --locked --release --quiet -p civ-sim --features $(SIM_FEATURES)
	$(CARGO) build --locked --release -p civ-sim --features $(SIM_FEATURES)
	$(TARGET)/release/civ-sim run --seeds $(or $(SEEDS),10000) --from $(or $(FROM),1)

sim-planted: ## the same with each of the planted faults, which has to be found; ONLY=name
	@$(NEED) build
	$(CARGO) build --locked --release -p civ-sim --features planted-faults
	$(TARGET)/release/civ-sim planted --seeds $(or $(SEEDS),2000) $(if $(ONLY),--only $(ONLY))

doc: ## the API documentation, warnings are errors
	@$(NEED) build
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

deny: ## licences, bans and sources of all dependencies
	@$(NEED) build
	@cargo deny --version 2>/dev/null | grep -qF ' $(DENY_VERSION)' \
		|| cargo install --locked cargo-deny --version $(DENY_VERSION)
	$(CARGO) deny --locked check bans licenses sources
	$(CARGO) deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml \
		check bans licenses sources

.PHONY: unused sbom
MACHETE_VERSION := 0.9.2
unused: ## dependencies that nothing uses
	@$(NEED) build
	@cargo machete --version 2>/dev/null | grep -qxF '$(MACHETE_VERSION)' \
		|| cargo install --locked cargo-machete --version $(MACHETE_VERSION)
	$(CARGO) machete

CYCLONEDX_VERSION := 0.5.9
sbom: ## a bill of materials of each program, CycloneDX, to target/sbom
	@$(NEED) build
	@cargo cyclonedx --version 2>/dev/null | grep -qF ' $(CYCLONEDX_VERSION)' \
		|| cargo install --locked cargo-cyclonedx --version $(CYCLONEDX_VERSION)
	deploy/sbom.sh $(TARGET)/sbom

clean: ## remove everything that was built
	$(CARGO) clean
