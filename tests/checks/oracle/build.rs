// SPDX-License-Identifier: MIT
//! Compiles the kernel half with clang and generates the Rust side of the record that both halves share.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bindgen::callbacks::{DeriveInfo, ParseCallbacks};
use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/oracle.bpf.c";
const RECORDS: &str = "src/bpf/oracle.h";
const INCLUDES: [&str; 3] = ["-I../../../abi", "-I../../../bpf", "-Isrc/bpf"];
const FLAGS: [&str; 5] = [
    "-mcpu=v3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
];

/// Plain old data without padding; zerocopy checks it.
#[derive(Debug)]
struct PlainData;

impl ParseCallbacks for PlainData {
    fn add_derives(&self, _: &DeriveInfo<'_>) -> Vec<String> {
        ["FromBytes", "IntoBytes", "KnownLayout", "Immutable"]
            .map(|name| format!("zerocopy::{name}"))
            .to_vec()
    }
}

fn main() -> Result<()> {
    for file in [
        SOURCE,
        RECORDS,
        "../../../bpf/monitor.h",
        "../../../abi/flexguard_abi.h",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    // Debian and Ubuntu keep asm/types.h, which linux/bpf.h includes, in the multiarch directory.
    let multiarch = format!(
        "/usr/include/{}-linux-gnu",
        env::var("CARGO_CFG_TARGET_ARCH")?
    );
    SkeletonBuilder::new()
        .source(SOURCE)
        .obj(out.join("oracle.bpf.o"))
        .clang_args(
            INCLUDES
                .into_iter()
                .chain(FLAGS)
                .chain(["-idirafter", &multiarch]),
        )
        .build_and_generate(out.join("oracle.skel.rs"))
        .context("compiling oracle.bpf.c (needs clang and the kernel's user-space headers)")?;
    records(&out)
}

fn records(out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .header(RECORDS)
        .clang_args(INCLUDES)
        .allowlist_item("oracle_.*|ORACLE_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .parse_callbacks(Box::new(PlainData))
        .generate()
        .context("generating bindings of oracle.h")?
        .write_to_file(out.join("records.rs"))?;
    Ok(())
}
