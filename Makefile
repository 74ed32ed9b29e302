# SPDX-License-Identifier: MIT
# The front door. CMake builds C, Cargo builds Rust and BPF; both end up in build/, laid out like an installed prefix.
# Cargo fetches crates from the network when they are not in its cache.
PREFIX ?= /usr/local
DESTDIR ?=
WERROR ?= $(if $(CI),ON,OFF)
REQUIRE_PEERS ?= $(if $(CI),ON,OFF)
ROUNDS ?= 7

CMAKE_BUILD := build/.cmake
# Where `make` lays out what it builds.
BUILT := build
CARGO := cargo build --release --locked
export CARGO_TARGET_DIR ?= $(CURDIR)/build/.cargo
# rustup's toolchain need not be on the PATH of a shell that was open when it was installed.
export PATH := $(PATH):$(HOME)/.cargo/bin

# $(call build,CMake options,CMake targets,Cargo's selection)
define build
	@scripts/bootstrap --check build
	@cmake -S . -B $(CMAKE_BUILD) -G Ninja --log-level=WARNING $(1)
	@cmake --build $(CMAKE_BUILD) --target $(2)
	@cmake --install $(CMAKE_BUILD) --prefix build >/dev/null
	@$(CARGO) $(3)
	@scripts/assemble build
endef
strict := -DFG_WERROR=$(WERROR) -DFG_REQUIRE_PEERS=$(REQUIRE_PEERS) $(if $(CONSTANTS),-DFG_CONSTANTS=$(CONSTANTS)) $(if $(RULES),-DFG_RULES=$(RULES))
# A build directory that has the workers and the tests keeps them.
first := $(if $(wildcard $(CMAKE_BUILD)/CMakeCache.txt),,-DFG_TESTS=OFF)
whole := $(strict) -DFG_PUBLISHED_LOCKS=
# Where nothing is built yet, `make run` builds what it needs: one published lock, a command without the subcommands that
# link most crates (command/cli/Cargo.toml). A man page is there when `make` has built all.
is_first := $(if $(wildcard build/share/man/man1/flexguard.1),,yes)

.PHONY: all first workers simulators tests run arm64 check check-arm64 check-forks check-guests check-hostile check-kernels check-kernels-arm64 check-lifecycles check-packages check-programs check-random check-slice check-systems bench deb fuzz install uninstall site lint hooks format clean help

all: ## build what a user needs into build/: the command, the interposers, the library (the default)
	$(call build,$(whole) $(first),all,-p flexguard)

workers: ## the same, and the workers of `flexguard bench`
	$(call build,$(whole) -DFG_TESTS=ON,all workers,-p flexguard -p flexguard-peers)

simulators: ## the same, and what `flexguard bench --machine` runs: every lock on simulated machines
	$(call build,$(whole) -DFG_TESTS=ON,all workers simulators,-p flexguard -p flexguard-peers)

tests: ## everything: the workers and the tests, too
	$(call build,$(whole) -DFG_TESTS=ON,all workers tests,--workspace --bins --tests)

first:
	$(call build,$(strict) $(first) -DFG_PUBLISHED_LOCKS=flexguard-sosp25,all,-p flexguard --no-default-features)

run: ## the main job: real programs under glibc's mutexes, the published lock and the default lock: a table
	@scripts/bootstrap build run
	@$(MAKE) --no-print-directory $(if $(is_first),first,all)
	build/bin/flexguard bench first --rounds $(ROUNDS)

check: ## every test; ends non-zero on any failure
	@scripts/bootstrap build check
	@$(MAKE) --no-print-directory tests
	@scripts/check

arm64: ## what a user needs for arm64, cross-built into build/arm64, and the workers and tests (Debian; needs its mirror)
	@scripts/bootstrap build arm64
	@cmake -S . -B build/.cmake-arm64 -G Ninja --log-level=WARNING $(strict) -DFG_REQUIRE_PEERS=OFF -DFG_TESTS=ON -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake
	@cmake --build build/.cmake-arm64 --target all workers tests
	@cmake --install build/.cmake-arm64 --prefix build/arm64 >/dev/null
	@scripts/arm64 $(CARGO) -p flexguard -p flexguard-oracle -p flexguard-monitor --bins --test monitor
	@scripts/arm64 scripts/assemble build/arm64

check-arm64: ## its unit, posix and conformance tests under user-mode emulation, without a monitor
	@tests/arm64/check $(if $(QUICK),--quick)

check-kernels-arm64: ## the command and the monitor on arm64 kernels 6.1, 6.12 and 7.3, in virtual machines (the same)
	@$(MAKE) --no-print-directory all arm64
	@tests/kernels/arm64

check-hostile: ## every test with late timers, beside a thief of CPUs, and on one CPU: hours (HOSTS="late thief"; root)
	@scripts/bootstrap build check
	@$(MAKE) --no-print-directory tests
	@for host in $(or $(HOSTS),late thief one-cpu); do build/.cmake/tests/hostile/hostile $$host scripts/check || exit 1; done

check-kernels: ## the monitor's tests on Linux 6.1, 6.12 and 7.3, and with 64 and 255 CPUs, in virtual machines (Debian; needs its mirror)
	@tests/kernels/kernels
	@tests/kernels/large

check-guests: ## the spinlocks of lab/guest/ in User-Mode Linux guests: torture (Debian; needs its mirror)
	@scripts/bootstrap build kernels
	@$(MAKE) --no-print-directory all
	@tests/guests/check

check-programs: ## real programs of Debian under glibc's locks and ours, checked by their results (PROGRAMS="node python")
	@scripts/bootstrap build check-programs
	@$(MAKE) --no-print-directory all
	@[ -x build/programs/leveldb_db_bench ] || scripts/leveldb
	@tests/programs/check build $(PROGRAMS)

check-random: ## random operations on the default lock for 20 minutes (SECONDS=n, SEED=n), beside monitors that are killed
	@tests/random/random.sh build flexguard build/.cmake/tests/random/random $(or $(SECONDS),1200) $(SEED)

check-lifecycles: ## processes that come, change and die for 20 minutes (SECONDS=n, SEED=n), beside monitors that do so (root)
	@tests/lifecycles/lifecycles.sh build flexguard $(CURDIR)/build/.cmake/tests/lifecycles/lifecycle $(or $(SECONDS),1200) $(SEED)

check-forks: ## five users who fork 100,000 processes beside a monitor with the limits of packaging/kubernetes (root)
	@tests/forks/forks.py build flexguard $(CURDIR)/build/.cmake/tests/forks/forks $(or $(FORKS),100000) 2

fuzz: ## damaged input for all that reads what others wrote: two minutes (SECONDS=n, SEED=n)
	@scripts/bootstrap build fuzz
	@tests/fuzz/fuzz $(or $(SECONDS),120) $(SEED)

check-slice: ## the locks with time-slice extension, on a kernel built for it, in a virtual machine (the same)
	@tests/kernels/slice

bench: workers ## the paper's shared-memory-access microbenchmark: glibc, futex, flexguard
	build/bin/flexguard bench shm

install: ## copy what `make` built to $(DESTDIR)$(PREFIX); after `make workers`, the workers, too
	@test -e $(BUILT)/share/man/man1/flexguard.1 || { echo "nothing to install yet: run \`make\` first" >&2; exit 1; }
	@DESTDIR="$(DESTDIR)" cmake --install $(CMAKE_BUILD) --prefix "$(PREFIX)" >/dev/null
	@scripts/assemble "$(DESTDIR)$(PREFIX)" "$(PREFIX)"

uninstall: ## remove what `make install` put there, with the same $(DESTDIR)$(PREFIX)
	@scripts/uninstall "$(DESTDIR)$(PREFIX)" $(CMAKE_BUILD)

deb: ## Debian packages of what `make` built, and a bill of materials, in build/deb (ARCH=arm64: of `make arm64`)
	@scripts/bootstrap --check packages
	@test -e build/$(ARCH)/share/man/man1/flexguard.1 || { echo "nothing to package yet: run \`make $(ARCH)\` first" >&2; exit 1; }
	@scripts/deb $(if $(ARCH),--arch $(ARCH))

check-packages: ## install, use and purge them in a Debian 12 and a Debian 13 (root; needs a Debian mirror; minutes)
	@scripts/bootstrap packages chroots check-packages
	@$(MAKE) --no-print-directory workers
	@tests/packages/packages
	@tests/packages/manifests
	@tests/packages/formats

check-systems: ## build and test in a Debian 12 and a Debian 13, and each with the other's interposers (the same)
	@scripts/bootstrap chroots
	@tests/systems/systems

site: all ## the documentation as a static site with a search: build/site
	@scripts/bootstrap --check site
	@scripts/site

lint: ## formatting, static analysis, and the rules of CONTRIBUTING.md
	@scripts/bootstrap build check bench lint
	@scripts/lint

format: ## rewrite C and Rust in the project's format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format-14 -i
	@cargo fmt --all
	@git ls-files -co --exclude-standard 'command/cli/src/commands/*.rs' | xargs rustfmt --edition 2024

hooks: ## git runs the quick steps of lint before each commit, and keeps subjects within 72 characters
	@git config core.hooksPath scripts/hooks

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26
