// SPDX-License-Identifier: MIT
//! Compiles the kernel half with clang, and the mutants of the monitor that the oracle must notice; generates the Rust
//! side of the record that both halves share.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

include!("../../../monitor/bpf_flags.rs");
include!("../../../monitor/tests/monitor/mutants/table.rs");

const ROOT: &str = "../../..";
const SOURCE: &str = "src/bpf/oracle.bpf.c";
const RECORDS: &str = "src/bpf/oracle.h";
const MONITOR: &str = "../../../monitor/bpf/monitor.bpf.c";
const NEEDS: &str = "needs clang and the kernel's user-space headers";

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
        MONITOR,
        "../../../monitor/bpf/judge.h",
        "../../../monitor/bpf/kernel_types.h",
        "../../../monitor/bpf/monitor.h",
        "../../../monitor/bpf/slice.h",
        "../../../abi/flexguard_abi.h",
        "../../../monitor/bpf_flags.rs",
        "../../../monitor/tests/monitor/mutants/table.rs",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    let mut flags = bpf_flags(ROOT, &env::var("CARGO_CFG_TARGET_ARCH")?);
    flags.push("-Isrc/bpf".to_owned());
    let headers = env::var("DEP_BPF_INCLUDE").context("libbpf-sys says where its headers are")?;
    compile_bpf(
        Path::new(SOURCE),
        &out.join("oracle.bpf.o"),
        &headers,
        &flags,
    )
    .map_err(|e| anyhow!("compiling oracle.bpf.c ({NEEDS}): {e}"))?;
    mutants(&out, &headers, flags)?;
    records(&out)
}

/// Writes mutants.rs: the objects by name.
fn mutants(out: &Path, headers: &str, mut flags: Vec<String>) -> Result<()> {
    let source = kernel_half(ROOT);
    let mut list =
        "/// Kernel halves of the monitor that are broken on purpose.\npub const MUTANTS: &[(&str, &[u8])] = &[\n"
            .to_owned();
    flags.push("-w".to_owned());
    for mutant in MUTANTS.iter().filter(|mutant| mutant.caught_by == ORACLE) {
        let Mutant { name, old, new, .. } = mutant;
        if !source.contains(old) {
            println!(
                "cargo:warning=the mutant {name} replaces a text that the kernel half does not contain"
            );
            continue; // its test says that there is no such mutant
        }
        let file = out.join(format!("{name}.bpf.c"));
        fs::write(&file, source.replace(old, new))?;
        let object = out.join(format!("{name}.bpf.o"));
        compile_bpf(&file, &object, headers, &flags)
            .map_err(|e| anyhow!("compiling the mutant {name} ({NEEDS}): {e}"))?;
        writeln!(
            list,
            "    ({name:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.bpf.o\"))),"
        )?;
    }
    list.push_str("];\n");
    Ok(fs::write(out.join("mutants.rs"), list)?)
}

fn records(out: &Path) -> Result<()> {
    bindgen::Builder::default()
        .header(RECORDS)
        .clang_args(["-I../../../abi", "-I../../../monitor/bpf", "-Isrc/bpf"])
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
