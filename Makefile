# SPDX-License-Identifier: MIT
# The front door. CMake builds C, Cargo builds Rust and BPF; both end up in build/, laid out like an installed prefix.
PREFIX ?= /usr/local
DESTDIR ?=
WERROR ?= $(if $(CI),ON,OFF)
REQUIRE_PEERS ?= $(if $(CI),ON,OFF)
ROUNDS ?= 7
RUN_SIZE ?= 500000

CMAKE_BUILD := build/.cmake
export CARGO_TARGET_DIR ?= $(CURDIR)/build/.cargo
# rustup's toolchain need not be on the PATH of a shell that was open when it was installed.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: all c rust run check check-kernels check-slice bench install lint format clean help

all: c rust ## build everything into build/ (the default)

c:
	@scripts/bootstrap --check build
	@cmake -S . -B $(CMAKE_BUILD) -G Ninja -DFG_WERROR=$(WERROR) -DFG_REQUIRE_PEERS=$(REQUIRE_PEERS) --log-level=WARNING
	@cmake --build $(CMAKE_BUILD)
	@cmake --install $(CMAKE_BUILD) --prefix build >/dev/null

rust: c
	@cargo build --manifest-path rust/Cargo.toml --release --locked --bins
	@scripts/assemble build

run: ## the main job: Kyoto Cabinet's cache test under glibc's mutexes and under FlexGuard
	@scripts/bootstrap build run
	@$(MAKE) --no-print-directory all
	build/bin/flexguard bench exec --locks posix,flexguard --rounds $(ROUNDS) -- \
		kccachetest wicked -th 4 -it 2 $(RUN_SIZE)

check: ## every test; ends non-zero on any failure
	@scripts/bootstrap build check
	@$(MAKE) --no-print-directory all
	@scripts/check

check-kernels: ## the monitor's tests on Linux 6.1, 6.12 and 7.3, in virtual machines (Debian; needs its mirror)
	@tests/kernels/kernels

check-slice: ## the locks with time-slice extension, on a kernel built for it, in a virtual machine (the same)
	@tests/kernels/slice

bench: all ## the paper's shared-memory-access microbenchmark: glibc, futex, flexguard
	build/bin/flexguard bench shm

install: ## copy what `make` built to $(DESTDIR)$(PREFIX)
	@test -x build/bin/flexguard || { echo "nothing to install yet: run \`make\` first" >&2; exit 1; }
	@DESTDIR="$(DESTDIR)" cmake --install $(CMAKE_BUILD) --prefix "$(PREFIX)" >/dev/null
	@scripts/assemble "$(DESTDIR)$(PREFIX)"

lint: ## formatting, static analysis, and the rules of CONTRIBUTING.md
	@scripts/bootstrap build lint
	@scripts/lint

format: ## rewrite C and Rust in the project's format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format-14 -i
	@cargo fmt --manifest-path rust/Cargo.toml --all

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26
