// SPDX-License-Identifier: MIT
//! Compiles the programs of bpf/ with clang and generates the Rust side of the records both halves share.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

include!("bpf_flags.rs");

/// The monitor's kernel half, the sampler of spins, the tracer, and the watch over waits.
const SOURCES: [&str; 4] = ["monitor", "spins", "trace", "futex"];
const HEADERS: [&str; 13] = [
    "bpf/census.h",
    "bpf/cpus.h",
    "bpf/domains.h",
    "bpf/futex.h",
    "bpf/judge.h",
    "bpf/kernel_types.h",
    "bpf/monitor.h",
    "bpf/names.h",
    "bpf/recount.h",
    "bpf/slice.h",
    "bpf/spins.h",
    "bpf/trace.h",
    "../abi/flexguard_abi.h",
];

/// As in the ABI's build: plain old data without padding, checked by zerocopy. bindgen itself cannot see how much
/// it may derive, because the ABI's types are not generated here.
#[derive(Debug)]
struct PlainData;

impl ParseCallbacks for PlainData {
    fn add_derives(&self, _: &DeriveInfo<'_>) -> Vec<String> {
        let rust = ["Debug", "Clone", "Copy", "PartialEq", "Eq"].map(String::from);
        let zerocopy = ["FromBytes", "IntoBytes", "KnownLayout", "Immutable"];
        rust.into_iter()
            .chain(zerocopy.map(|name| format!("zerocopy::{name}")))
            .collect()
    }
}

fn main() -> Result<()> {
    for header in HEADERS {
        println!("cargo:rerun-if-changed={header}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    records(&out)?;
    println!("cargo:rerun-if-changed=bpf_flags.rs");
    // Where libbpf-sys, a direct dependency, laid libbpf's headers; the tests compile with them, too.
    let headers = env::var("DEP_BPF_INCLUDE").context("libbpf-sys says where its headers are")?;
    println!("cargo:rustc-env=FG_BPF_HEADERS={headers}");
    let flags = bpf_flags("..", &env::var("CARGO_CFG_TARGET_ARCH")?);
    for name in SOURCES {
        let source = format!("bpf/{name}.bpf.c");
        println!("cargo:rerun-if-changed={source}");
        let object = out.join(format!("{name}.bpf.o"));
        compile_bpf(Path::new(&source), &object, &headers, &flags).map_err(|e| {
            anyhow!("compiling {source} (needs clang and the kernel's user-space headers): {e}")
        })?;
    }
    Ok(())
}

fn records(out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .header("bpf/monitor.h")
        .header("bpf/spins.h")
        .header("bpf/trace.h")
        .header("bpf/futex.h")
        .clang_args(["-I../abi", "-Ibpf"])
        .allowlist_file(".*/(monitor|spins|trace|futex)\\.h")
        .allowlist_recursively(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_copy(false)
        .derive_debug(false)
        .parse_callbacks(Box::new(PlainData))
        .raw_line("use flexguard_abi::*;")
        .generate()
        .context("generating bindings of bpf/*.h")?
        .write_to_file(out.join("records.rs"))?;
    Ok(())
}
