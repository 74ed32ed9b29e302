// SPDX-License-Identifier: MIT
//! Compiles the default lock's C for the model: with the compiler's instrumentation for data races, but without its
//! runtime. So every access to memory becomes a call, which src/hooks.rs answers.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets it")?);
    let root = here.join("../../..").canonicalize()?;
    cc::Build::new()
        .file("src/order.c")
        .include(&root)
        .std("gnu11")
        .define("_GNU_SOURCE", None)
        .opt_level(1)
        .flag("-includesrc/order.h")
        .flag("-ftls-model=initial-exec")
        .flag("-fsanitize=thread")
        // A panic of the model unwinds through the lock.
        .flag("-fexceptions")
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-function")
        .try_compile("order")?;
    for dir in ["abi", "locks", "runtime"] {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
    }
    println!("cargo::rerun-if-changed=src");
    Ok(())
}
