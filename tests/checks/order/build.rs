// SPDX-License-Identifier: MIT
//! Compiles the default lock's C for the model: with the compiler's instrumentation for data races, but without its
//! runtime. So every access to memory becomes a call, which src/hooks.rs answers. Constants that say how often a waiter
//! looks are smaller: each look multiplies the executions.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

const LOCK: &str = "locks/default/flexguard.c";

/// What CMake compiles the runtime with, one option a line.
const FLAGS: [&str; 2] = ["cmake/c-flags", "cmake/c-flags-runtime"];

const SMALLER: [[&str; 2]; 2] = [
    ["#define SPIN_PAUSES 32u", "#define SPIN_PAUSES 4u"],
    ["#define GRACE 8u", "#define GRACE 1u"],
];

/// Writes the lock with smaller constants to where `#include` finds it first.
fn edit(root: &Path, out: &Path) -> Result<()> {
    let mut text = fs::read_to_string(root.join(LOCK))?;
    for [old, new] in SMALLER {
        ensure!(text.contains(old), "{LOCK} has no longer: {old}");
        text = text.replace(old, new);
    }
    let edited = out.join(LOCK);
    fs::create_dir_all(edited.parent().context("it is in a folder")?)?;
    Ok(fs::write(edited, text)?)
}

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets it")?);
    let root = here.join("../../..").canonicalize()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets it")?);
    edit(&root, &out)?;
    let mut build = cc::Build::new();
    for file in FLAGS {
        let flags = fs::read_to_string(root.join(file)).context(file)?;
        build.flags(flags.lines());
    }
    build
        .file("src/order.c")
        .include(&out)
        .include(&root)
        .opt_level(1)
        .flag("-includesrc/order.h")
        .flag("-fsanitize=thread")
        // A panic of the model unwinds through the lock.
        .flag("-fexceptions")
        .warnings(false)
        .flag("-Wno-unused-function")
        .try_compile("order")?;
    for path in ["abi", "locks", "runtime"].iter().chain(&FLAGS) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rerun-if-changed=src");
    Ok(())
}
