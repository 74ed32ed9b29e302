// SPDX-License-Identifier: MIT
//! Compiles C for the model, the default lock's, that of lib/sync/ and the MCS lock's: with the compiler's instrumentation for data
//! races, but without its runtime. So every access to memory becomes a call, which src/hooks.rs answers. Constants that
//! say how often a waiter looks are smaller: each look multiplies the executions. The table of paces is each test's
//! own.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

/// What CMake compiles the runtime with, one option a line.
const FLAGS: [&str; 2] = ["cmake/c-flags", "cmake/c-flags-runtime"];

/// File, text, and what stands there in the model.
const EDITS: [[&str; 3]; 7] = [
    [
        "lock/default/numbers.h",
        "#define FGI_MANY 8u",
        "#define FGI_MANY 1u",
    ],
    [
        "lock/default/pace.h",
        "static struct fgi_pace fgi_paces",
        "static __thread struct fgi_pace fgi_paces",
    ],
    [
        "sync/readers.h",
        "#define FGI_READER_ROWS 128",
        "#define FGI_READER_ROWS 4",
    ],
    [
        "sync/bucket.h",
        "#define FGI_BUCKET_SPINS 64",
        "#define FGI_BUCKET_SPINS 0",
    ],
    [
        "sync/rwlock.c",
        "#define MOST_PAUSES 64u",
        "#define MOST_PAUSES 0u",
    ],
    ["sync/rwlock.c", "#define STAYS 2", "#define STAYS 1"],
    // All threads of the model are on one thread of the system.
    [
        "sync/parked.c",
        "static __thread uint32_t inside __attribute__((tls_model(\"initial-exec\")));",
        "#define inside (*fgo_inside())",
    ],
];

/// Writes the edited files to where `#include` finds them first.
fn edit(root: &Path, out: &Path) -> Result<()> {
    for [file, old, new] in EDITS {
        let edited = out.join(file);
        fs::create_dir_all(edited.parent().context("it is in a folder")?)?;
        let before = EDITS.iter().take_while(|s| s[1] != old);
        let again = before.last().is_some_and(|s| s[0] == file);
        let from = if again {
            edited.clone()
        } else {
            root.join("lib").join(file)
        };
        let text = fs::read_to_string(from)?;
        ensure!(text.contains(old), "{file} has no longer: {old}");
        fs::write(edited, text.replace(old, new))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets it")?);
    let root = here.join("../../..").canonicalize()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets it")?);
    // A folder of its own, new: what an earlier build edited must not be found.
    let edited = out.join("edited");
    if edited.exists() {
        fs::remove_dir_all(&edited)?;
    }
    edit(&root, &edited)?;
    let mut build = cc::Build::new();
    for file in FLAGS {
        let flags = fs::read_to_string(root.join(file)).context(file)?;
        build.flags(flags.lines());
    }
    build
        .files(["order.c", "rwlock.c", "barrier.c", "cond.c", "mcs.c"].map(|f| format!("src/{f}")))
        .include(&edited)
        .include(&root)
        .include(root.join("lib"))
        .include(root.join("lab"))
        .include(&here)
        .opt_level(1)
        .flag("-includesrc/order.h")
        .flag("-fsanitize=thread")
        // A panic of the model unwinds through the lock.
        .flag("-fexceptions")
        .warnings(false)
        .flag("-Wno-unused-function")
        .try_compile("order")?;
    for path in ["abi", "lib", "lab/locks"].iter().chain(&FLAGS) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rerun-if-changed=src");
    Ok(())
}
