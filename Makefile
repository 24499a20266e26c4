# Thin targets over cargo; what a machine lacks, scripts/setup.sh installs. `make help` lists them.

SERVER  ?= redis-server
PORT    ?= 6379
ARGS    ?=
INTO    ?=
REDISBLOOM ?=
VALKEY_BLOOM ?=
PROFILE ?= tested
TIME    ?= 600
COMMANDS ?= 10000000
SEED    ?=
PLAN    ?=
JOBS    ?= 1
SHARD   ?= 0/6
THREADS ?= $(shell expr 4 \* "$$(getconf _NPROCESSORS_ONLN)")

# Where rustup puts cargo, also for a user whose shell does not know it yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
export SERVER

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LIBRARY    := $(TARGET_DIR)/release/libbloom.$(if $(filter Darwin,$(shell uname -s)),dylib,so)
TESTED     := $(abspath $(TARGET_DIR))/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/$(notdir $(LIBRARY))
BASELINE   := $(TARGET_DIR)/release/libbaseline.$(if $(filter Darwin,$(shell uname -s)),dylib,so)
REMAP      := "--remap-path-prefix=$(CURDIR)=.", "--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo"
AUDITABLE  := RUSTC_WORKSPACE_WRAPPER=cargo-auditable CARGO_AUDITABLE_ORIG_ARGS='{"offline":false,"locked":true,"frozen":false,"config":[]}'
# Without a package cargo builds all that Cargo.toml has as default-members.
MODULE_ALONE := --lib --package bloom
VENV       := .build/venv
BENCH_VENV := .build/bench-venv
SITE_VENV  := .build/site-venv
SITE_PAGES := .build/site-pages
JS         := js/build
# What the Python package is made of.
PACKAGE_SOURCES := $(wildcard python/*.toml python/*.md python/Cargo.lock python/src/*.rs python/libbloom/*.py*) \
	$(wildcard Cargo.toml core/Cargo.toml rdb/Cargo.toml) $(shell find core/src rdb/src -name '*.rs')
MEASURE     = $(BENCH_VENV)/bin/python benches/server/measure.py --server $(SERVER)

.DEFAULT_GOAL := help
.PHONY: help build run test test-long torture storm histories test-examples test-python test-js test-browser site test-site npm bench-js test-prometheus test-matrix test-redisbloom test-valkey-bloom fuzz mutants asan sanitize lint fmt bench bench-instructions bench-complexity bench-server compare example \
	package wheel test-package test-wheel reproduce test-deb test-fresh test-arm64 test-image test-crate public-api bench-crates clean

help: ## List the targets (the default)
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'Variables: SERVER=$(SERVER)  PORT=$(PORT)  PROFILE=$(PROFILE) (of the tests)'
	@echo '           TIME=$(TIME) (seconds of histories, or of a fuzz target)  SEED= PLAN= (of histories)'
	@echo '           COMMANDS=$(COMMANDS) SEED= (of a storm)'
	@echo '           JOBS=$(JOBS) (fuzz targets at once)'
	@echo '           SHARD=$(SHARD) (which part of the mutants)  THREADS=$(THREADS) (tests at once)'
	@echo '           ARGS= (more for the server or the example; names of servers or fuzz targets)'
	@echo '           REDISBLOOM= VALKEY_BLOOM= (what compare, test-redisbloom and test-valkey-bloom compare with)'
	@echo '           INTO= (pages that get the tables of compare and of bench-server)'

# A running server has the old file mapped, so the new one takes its name instead of its bytes.
build: ## Build ./libbloom.so, the module
	@scripts/setup.sh build
	cargo build --release $(MODULE_ALONE)
	@mkdir -p .build
	@cp "$(LIBRARY)" .build/libbloom.so.$$$$ && mv -f .build/libbloom.so.$$$$ libbloom.so

# The port first: nobody should wait for a build to be told that it is in use.
run: ## Start the server with the module on PORT, redis.conf and its data in ./data/PORT, in the foreground
	@scripts/run.sh check $(PORT)
	@$(MAKE) --no-print-directory build
	@scripts/setup.sh run
	@exec scripts/run.sh start $(PORT) $(ARGS)

# Optimised, because the statistical tests are long; PROFILE=dev adds the overflow checks.
# Benchmarks are no part of it: cargo tests the library, tests/ and the documentation's examples. All of them test
# one module, which is built with the tests. More threads than cores, because most tests wait for servers.
test: export BLOOM_TEST_SERVER = $(SERVER)
test: export BLOOM_TEST_MODULE = $(TESTED)
test: export RUST_TEST_THREADS = $(THREADS)
test: ## Run all tests: unit, integration (against a real server), documentation, examples, the packages for Python and npm
	@scripts/setup.sh test example
	cargo build --profile $(PROFILE) --lib --tests
	@$(MAKE) --no-print-directory $(VENV)/tests $(VENV)/libbloom
	cargo test --profile $(PROFILE) --no-fail-fast -- --skip torture::
	$(VENV)/bin/python tests/examples/run.py tests/examples python/tests
	@if command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; \
		then $(MAKE) --no-print-directory test-built-js; \
		else echo 'JavaScript: not tested, since Node.js 20 and npm are not installed (make test-js installs them)'; fi

test-long: export BLOOM_TEST_LONG = 1
test-long: test torture ## The same tests, and torture, with larger samples and the slow ones

torture: export BLOOM_TEST_SERVER = $(SERVER)
torture: export BLOOM_TEST_MODULE = $(TESTED)
torture: ## A short round of what takes long: histories, storm, complexity, crowds, statistics; ARGS= names some (tests/torture/README.md)
	@scripts/setup.sh test faketime
	cargo build --profile $(PROFILE) --lib --tests
	cargo test --profile $(PROFILE) -p bloom -p libbloom --lib --test integration torture:: -- $(ARGS)

storm: export BLOOM_TEST_SERVER = $(SERVER)
storm: export BLOOM_TEST_COMMANDS = $(COMMANDS)
storm: export BLOOM_TEST_RECORD = $(CURDIR)/.build/storm
storm: ## Send COMMANDS random commands to $SERVER, the same ones for the same SEED=; its memory must come back
	@scripts/setup.sh test
	$(if $(SEED),BLOOM_TEST_SEED=$(SEED)) cargo test --profile $(PROFILE) --test integration a_long_storm -- --ignored --nocapture

# Half of the rounds give each server a clock of its own, where libfaketime is there.
histories: export BLOOM_TEST_SERVER = $(SERVER)
histories: export BLOOM_TEST_TIME = $(TIME)
histories: ## Check what was promised through failovers, crashes and cuts, TIME seconds; SEED= and PLAN= repeat a failure
	@scripts/setup.sh test faketime
	$(if $(SEED),BLOOM_TEST_SEED=$(SEED)) $(if $(PLAN),BLOOM_TEST_PLAN='$(PLAN)') \
		cargo test --profile $(PROFILE) --test integration what_was_promised -- --nocapture

test-matrix: ## Run the integration tests on every server; ARGS= names some of them (scripts/servers.sh)
	@PROFILE=$(PROFILE) scripts/servers.sh $(ARGS)

# HEAD of RedisBloom loads in Redis 8 and Valkey 9.1, 2.6 and 2.8 in all from Redis 6.2 on.
test-redisbloom: export BLOOM_TEST_SERVER = $(SERVER)
test-redisbloom: export BLOOM_TEST_REDISBLOOM = $(abspath $(REDISBLOOM))
test-redisbloom: ## Compare with a RedisBloom that follows and is followed: REDISBLOOM=path.so, in $SERVER
	@test -n "$(REDISBLOOM)" || { echo 'REDISBLOOM=path.so is missing'; exit 1; }
	@scripts/setup.sh test
	cargo test --profile $(PROFILE) --test integration rival::

test-valkey-bloom: export BLOOM_TEST_SERVER = $(SERVER)
test-valkey-bloom: export BLOOM_TEST_VALKEY_BLOOM = $(abspath $(VALKEY_BLOOM))
test-valkey-bloom: ## Compare with a valkey-bloom that follows and is followed: VALKEY_BLOOM=path.so, in $SERVER, a Valkey
	@test -n "$(VALKEY_BLOOM)" || { echo 'VALKEY_BLOOM=path.so is missing'; exit 1; }
	@scripts/setup.sh test
	cargo test --profile $(PROFILE) --test integration rival::

fuzz: ## Fuzz what reads foreign bytes, TIME seconds a target; ARGS= names some of them (scripts/fuzz.sh)
	@TIME=$(TIME) JOBS=$(JOBS) scripts/fuzz.sh $(ARGS)

mutants: ## Which of a sixth of all small changes of the source no test notices; SHARD=1/6 another one (scripts/mutants.py)
	@scripts/setup.sh mutants
	scripts/mutants.py --shard $(SHARD) $(ARGS)

# Without the statistical tests: they take minutes, and touch no memory that the others do not.
asan: export RUSTFLAGS = -Zsanitizer=address
asan: export ASAN_OPTIONS = allocator_may_return_null=1
asan: ## Run the core's unit tests under AddressSanitizer
	@scripts/setup.sh nightly
	cargo +nightly test -p libbloom --lib --target-dir $(TARGET_DIR)/sanitize \
		--target "$$(rustc +nightly -vV | sed -n 's/^host: //p')" -- --skip torture::

sanitize: ## Run the integration tests with sanitizers in server and module; ARGS= names some (scripts/sanitize.sh)
	@scripts/sanitize.sh $(ARGS)

test-examples: export BLOOM_TEST_SERVER = $(SERVER)
test-examples: export BLOOM_TEST_MODULE = $(TESTED)
test-examples: ## Test the examples, with Python's packages in .build/venv and servers of its own
	@scripts/setup.sh example
	cargo build --profile $(PROFILE) $(MODULE_ALONE)
	@$(MAKE) --no-print-directory $(VENV)/tests $(VENV)/libbloom
	$(VENV)/bin/python tests/examples/run.py

test-python: export BLOOM_TEST_SERVER = $(SERVER)
test-python: export BLOOM_TEST_MODULE = $(TESTED)
test-python: ## Test the Python package, built into .build/venv, with servers of its own
	@scripts/setup.sh python example
	cargo build --profile $(PROFILE) $(MODULE_ALONE)
	@$(MAKE) --no-print-directory $(VENV)/tests $(VENV)/libbloom
	$(VENV)/bin/python tests/examples/run.py python/tests

test-js: export BLOOM_TEST_SERVER = $(SERVER)
test-js: export BLOOM_TEST_MODULE = $(TESTED)
test-js: ## Test the npm package in js/, with servers of its own
	@scripts/setup.sh node example
	cargo build --profile $(PROFILE) $(MODULE_ALONE)
	@$(MAKE) --no-print-directory test-built-js

.PHONY: test-built-js
test-built-js: $(JS)/tests
	cd js && node --test build/*.test.js

test-browser: ## Test the npm package in Chromium, a page and a Worker; CHROMIUM= names another program
	@scripts/setup.sh node chromium python
	@$(MAKE) --no-print-directory $(JS)/tests
	cd js && CHROMIUM=$${CHROMIUM:-$$(command -v chromium || command -v google-chrome)} node --test build/browser.js

site: ## Build .build/site, the website: README.md, docs, and pages that compute
	@scripts/setup.sh node python
	@$(MAKE) --no-print-directory $(JS)/site $(SITE_VENV)/ready
	@site/collect.py $(SITE_PAGES)
	js/node_modules/.bin/esbuild $(JS)/calculator.js $(JS)/watch.js --bundle --minify --format=esm --log-level=warning --outdir=$(SITE_PAGES)/pages
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --quiet --config-file $(SITE_PAGES)/mkdocs.yml --site-dir ../site

test-site: ## Test the site in Chromium; CHROMIUM= names another program
	@scripts/setup.sh node chromium python
	@SITE_URL=http://localhost/a/folder/ REPOSITORY_URL=https://localhost/source $(MAKE) --no-print-directory site $(JS)/compiled
	cd js && CHROMIUM=$${CHROMIUM:-$$(command -v chromium || command -v google-chrome)} node --test build/site.js

npm: ## Build dist/'s npm package
	@scripts/setup.sh node
	@$(MAKE) --no-print-directory $(JS)/ready
	scripts/npm.mjs dist

bench-js: ## Measure the npm package beside others
	@scripts/setup.sh node python
	@$(MAKE) --no-print-directory $(JS)/ready $(VENV)/libbloom
	node js/tests/bench.mjs

js/node_modules/ready: js/package-lock.json
	cd js && npm ci --silent --no-audit --no-fund
	@touch $@

$(JS)/ready: js/node_modules/ready js/package.json $(wildcard js/src/*)
	cd js && npm run --silent build
	@mkdir -p $(@D)
	@touch $@

# The pages of the site that compute.
$(JS)/site: $(JS)/ready $(wildcard js/site/*)
	js/node_modules/.bin/tsc --project js/site
	@touch $@

$(JS)/compiled: $(JS)/site $(wildcard js/tests/*.ts js/tests/*.json examples/typescript/*.ts)
	@cp examples/typescript/sharded.ts js/tests
	js/node_modules/.bin/tsc --project js/tests
	@touch $@

# With files that the Python package writes.
$(JS)/tests: $(JS)/compiled $(VENV)/libbloom js/tests/files.py
	$(VENV)/bin/python js/tests/files.py $(@D)/files
	@touch $@

# The other tests of the examples run these too, as far as the two programs are there.
test-prometheus: export BLOOM_TEST_SERVER = $(SERVER)
test-prometheus: build ## Test examples/prometheus with a real exporter and a real Prometheus
	@scripts/setup.sh example prometheus
	@$(MAKE) --no-print-directory $(VENV)/tests
	$(VENV)/bin/python -m unittest discover -s tests/examples -p test_prometheus.py

CLIENTS := .build/clients

.PHONY: test-clients
# Libraries of fixed versions, in $(CLIENTS); what a machine cannot have is skipped with the reason.
test-clients: export BLOOM_TEST_SERVER = $(SERVER)
test-clients: build ## Drive the module through client libraries: redis-py, node-redis, ioredis, Jedis, go-redis
	@scripts/setup.sh clients
	@$(MAKE) --no-print-directory $(CLIENTS)/venv/ready $(CLIENTS)/node/ready $(CLIENTS)/go/ready
	$(CLIENTS)/venv/bin/python tests/clients/run.py

$(CLIENTS)/venv/ready: tests/clients/requirements.txt

$(CLIENTS)/node/ready: $(wildcard tests/clients/node/*) scripts/clients.sh
	@scripts/clients.sh node
	@touch $@

# Without go-redis it is tried again the next time.
$(CLIENTS)/go/ready: $(wildcard tests/clients/go/*) scripts/clients.sh
	@scripts/clients.sh go
	@[ -e $(@D)/missing ] || touch $@

# What the pages on docs.rs show is the API; the modules that only this project's server module calls are not. rustdoc's
# JSON has no stable form yet, which RUSTC_BOOTSTRAP lets the stable compiler write.
PUBLIC_API = RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="-D warnings" cargo rustdoc --quiet --locked -p $(1) --lib -- -Z unstable-options --output-format json --document-hidden-items --cfg docsrs \
	&& python3 scripts/public-api.py "$(TARGET_DIR)/doc/$(subst -,_,$(1)).json" >.build/$(1).txt

# The packages are built from their archives, as crates.io has them.
test-crate: ## Check that the crates can be published
	cargo publish --dry-run --locked -p libbloom -p libbloom-rdb $(ARGS)

public-api: ## Write public-api.txt of the crates anew
	@scripts/setup.sh python
	@mkdir -p .build
	$(call PUBLIC_API,libbloom) && mv .build/libbloom.txt core/public-api.txt
	$(call PUBLIC_API,libbloom-rdb) && mv .build/libbloom-rdb.txt rdb/public-api.txt

lint: ## Check format, clippy's lints, the documentation (warnings as errors) and the crates' public-api.txt
	@scripts/setup.sh lint python
	cargo fmt --all --check
	cargo fmt --check --manifest-path python/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --locked
	@mkdir -p .build
	$(call PUBLIC_API,libbloom)
	$(call PUBLIC_API,libbloom-rdb)
	@diff -u core/public-api.txt .build/libbloom.txt && diff -u rdb/public-api.txt .build/libbloom-rdb.txt \
		|| { echo 'the API has changed: if it is meant so, make public-api'; exit 1; }

fmt: ## Format the source
	@scripts/setup.sh lint
	cargo fmt --all
	cargo fmt --manifest-path python/Cargo.toml

bench: ## Measure the core, without a server
	@scripts/setup.sh build
	cargo bench -p libbloom-benches --bench core $(if $(ARGS),-- $(ARGS))

bench-crates: ## Measure the crate beside other crates at equal rates of errors; ARGS="0.01 1000 1e7" is the rate, and sizes
	@scripts/setup.sh build
	cargo bench -p libbloom-benches --bench crates $(if $(ARGS),-- $(ARGS))

bench-instructions: ## Count instructions of hot paths and commands; fails where one rose by over 5 %. ARGS=--keep keeps them
	@scripts/setup.sh test valgrind
	$(if $(BLOOM_TEST_MODULE),,cargo build --release $(MODULE_ALONE))
	cargo run --release -p libbloom-instructions $(if $(ARGS),-- $(ARGS))

bench-complexity: export BLOOM_TEST_SERVER = $(SERVER)
bench-complexity: ## Count what commands cost at growing sizes; fails where one grows otherwise than its page says
	@scripts/setup.sh test valgrind
	cargo test --profile $(PROFILE) --test integration complexity:: -- --ignored --nocapture

# What it is compared with: the floor that no module gets below, and a plain filter of RedisBloom's layout.
bench-server: build ## Measure the module beside the floor in $SERVER; MODULES= adds name=path.so, ARGS= as measure.py says
	@$(MAKE) --no-print-directory bench-ready
	$(MEASURE) --for bench-server --out .build/bench $(ARGS) $(foreach page,$(INTO),--into $(page)) \
		floor=$(BASELINE),floor plain=$(BASELINE),plain libbloom=libbloom.so classic=libbloom.so,bf-layout,classic $(MODULES) \
		$(if $(REDISBLOOM),redisbloom=$(REDISBLOOM))
	@echo 'tables and plots: .build/bench'

# The others first: nobody should wait for this module to be told that another one cannot be built.
compare: ## Measure it beside others in $SERVER: REDISBLOOM= VALKEY_BLOOM= path.so or git address; INTO= pages; ARGS=--quick
	@test -n "$(REDISBLOOM)$(VALKEY_BLOOM)" || { echo 'REDISBLOOM= and VALKEY_BLOOM= are missing: a path.so or a git address'; exit 1; }
	@scripts/setup.sh example
	@mkdir -p .build/compare
	@: >.build/compare/rivals
	@$(if $(REDISBLOOM),so=$$(scripts/rival.sh redisbloom '$(REDISBLOOM)') && echo "redisbloom=$$so" >>.build/compare/rivals)
	@$(if $(VALKEY_BLOOM),so=$$(scripts/rival.sh valkey-bloom '$(VALKEY_BLOOM)') && echo "valkey-bloom=$$so" >>.build/compare/rivals)
	@$(MAKE) --no-print-directory build bench-ready
	set --; while IFS= read -r rival; do set -- "$$@" "$$rival"; done <.build/compare/rivals; \
		$(MEASURE) --for compare --out .build/compare $(ARGS) $(foreach page,$(INTO),--into $(page)) \
		floor=$(BASELINE),floor libbloom=libbloom.so "$$@" $(MODULES)
	@echo 'tables and plots: .build/compare'

.PHONY: bench-ready
bench-ready:
	@scripts/setup.sh example
	@$(MAKE) --no-print-directory $(BENCH_VENV)/ready
	cargo build --release -p libbloom-benches

example: build ## Run examples/crawl.py, with Python's packages in .build/venv and a server of its own
	@scripts/setup.sh example
	@$(MAKE) --no-print-directory $(VENV)/libbloom
	$(VENV)/bin/python examples/crawl.py --server $(SERVER) --restart $(ARGS)

$(VENV)/ready: examples/requirements.txt
$(VENV)/scrapy: examples/scrapy/requirements.txt $(VENV)/ready
$(VENV)/tests: tests/examples/requirements.txt $(VENV)/scrapy
$(VENV)/libbloom: $(PACKAGE_SOURCES) $(VENV)/ready
$(VENV)/package: tests/package/requirements.txt $(VENV)/ready
$(VENV)/scrapy $(VENV)/tests $(VENV)/package:
	@$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@
$(BENCH_VENV)/ready: benches/server/requirements.txt
$(SITE_VENV)/ready: site/requirements.txt
# Built without the profile of what is given away: half a minute instead of minutes, and no answer changes.
# WHEEL, in the environment, is one that was built already.
$(VENV)/libbloom:
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		$(@D)/bin/pip install --quiet --disable-pip-version-check '$(or $(WHEEL),./python)[redis]'
	@touch $@
$(VENV)/ready $(BENCH_VENV)/ready $(SITE_VENV)/ready $(CLIENTS)/venv/ready:
	@python3 -m venv --clear $(@D)
	@$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Built apart, without this machine's paths in it, so that a module is the same wherever it is built.
# What cargo says of the crates that it built is how their licences are found, with nothing fetched any more.
# cargo-auditable writes into the module which crates it is made of. `cargo auditable build` would have cargo call
# it by its path, which goes into the names of symbols; by its name alone it gives the same bytes on every machine.
package: ## Build dist/: an archive of the module, a .deb where dpkg-deb is, and the Python package (docs/install.md)
	@scripts/setup.sh package
	@$(MAKE) --no-print-directory pack

# With the tools that are there; CARGO_BUILD_TARGET, in the environment, is another machine that it is for.
.PHONY: pack
pack:
	@mkdir -p .build/package
	$(AUDITABLE) cargo build --release $(MODULE_ALONE) --locked --target-dir .build/package --config 'target."cfg(all())".rustflags = [$(REMAP)]' \
		--message-format=json-render-diagnostics >.build/package/built.json
	cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --override-filename sbom
	@mv sbom.json .build/package/
	@rm -f */sbom.json */*/sbom.json
	@cp .build/package/$(CARGO_BUILD_TARGET)/$(LIBRARY:$(TARGET_DIR)/%=%) .build/package/libbloom.so
	@rm -rf dist .build/package/wheel
	$(if $(WHEELS),cp -R "$(WHEELS)" .build/package/wheel,scripts/wheel.sh .build/package/wheel)
	scripts/package.py .build/package/libbloom.so dist
	@cp .build/package/wheel/* dist/

wheel: ## Build dist/'s wheel and source distribution of the Python package (python/README.md)
	@scripts/setup.sh python
	scripts/wheel.sh dist

test-wheel: ## Install dist's wheel in Debian 12's and 13's own Python, with nothing else, and use it; needs root
	@tests/package/try-wheel.sh dist/libbloom-*.whl $(ARGS)

test-package: package ## Test the packages, with servers of its own
	@scripts/setup.sh example
	@$(MAKE) --no-print-directory test-packed

.PHONY: test-packed
test-packed: export BLOOM_TEST_SERVER = $(SERVER)
test-packed:
	@$(MAKE) --no-print-directory $(VENV)/package
	$(VENV)/bin/python -m unittest discover -s tests/package

reproduce: ## Build the packages of the last commit twice, in different surroundings: the bytes must be the same
	@scripts/setup.sh package
	@scripts/reproduce.sh

test-deb: ## Install dist's .deb in a clean Debian under systemd; ARGS="trixie valkey"; needs root and debootstrap
	@tests/package/try-deb.sh dist/*.deb $(ARGS)

test-fresh: ## Try make run and make test in a bare Debian; ARGS="trixie valkey-server"; needs root and debootstrap
	@PORT=$(PORT) scripts/fresh.sh $(ARGS)

test-arm64: ## Test the module for arm64 on an x86-64 Debian, under qemu; needs root and debootstrap (scripts/arm64.sh)
	@scripts/arm64.sh $(ARGS)

test-image: ## Build the images with docker or podman, start them and try them; ARGS="redis valkey redis8" (scripts/test-image.sh)
	@scripts/test-image.sh $(ARGS)

clean: ## Remove what was built; ./data stays
	cargo clean
	rm -rf .build dist libbloom.so js/build js/dist js/node_modules
