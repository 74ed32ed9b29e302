// SPDX-License-Identifier: MIT
//! Compiles fg-bench's harness (lab/worker/, lib/runtime/) as CMake does, and one unit per peer that carries its lock.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

/// The name, and the size and alignment that src/bin/ asserts of its type.
const PEERS: [(&str, u32, u32); 2] = [("rust-std", 8, 4), ("rust-parking-lot", 1, 1)];

/// What CMake's Release compiles the runtime with, one option a line.
const FLAGS: [&str; 3] = [
    "cmake/c-flags",
    "cmake/c-flags-release",
    "cmake/c-flags-runtime",
];

/// Sources of lab/worker/ with a `main` of their own.
const PROGRAMS: [&str; 4] = ["calls", "handover", "launcher", "main"];

/// Files of `dir` that end in `.extension`, in order.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> Result<&str> {
    path.file_stem()
        .and_then(|s| s.to_str())
        .with_context(|| format!("{} has no name in UTF-8", path.display()))
}

/// With the options of CMake, and none of our own.
fn compiler(root: &Path) -> Result<cc::Build> {
    let mut build = cc::Build::new();
    build
        .no_default_flags(true)
        .warnings(false)
        .include(root)
        .include(root.join("lib"))
        .include(root.join("lab"))
        .include(root.join("include"))
        .cargo_metadata(false);
    for file in FLAGS {
        let flags = fs::read_to_string(root.join(file)).context(file)?;
        build.flags(flags.lines());
    }
    Ok(build)
}

/// What CMake generates: the includes and the table of all workloads.
fn workloads(root: &Path) -> Result<String> {
    let (mut includes, mut table) = (String::new(), String::new());
    for file in files(&root.join("lab/workloads"), "h")? {
        let name = name_of(&file)?;
        includes += &format!("#include \"workloads/{name}.h\"\n");
        table += &format!("&fgb_workload_{name}, ");
    }
    Ok(format!(
        "{includes}
static const struct fgb_workload *const fgb_workloads[] = {{{table}NULL}};
static const struct fgb_workload *const fgb_pthread_workloads[] = {{NULL}};
const struct fgb_carried fgb_carried = {{fgb_workloads, fgb_pthread_workloads, fgb_pairs, fgb_refusal, sizeof(struct fg_lock)}};
"
    ))
}

fn main() -> Result<()> {
    let root = fs::canonicalize(PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../.."))?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let arch = root
        .join("lib/runtime/arch")
        .join(env::var("CARGO_CFG_TARGET_ARCH")?);
    let mut sources = files(&root.join("lib/runtime"), "c")?;
    sources.extend(files(&arch, "c")?);
    sources.extend(files(&root.join("lab/locks/parts"), "c")?);
    for file in files(&root.join("lab/worker"), "c")? {
        if !PROGRAMS.contains(&name_of(&file)?) {
            sources.push(file);
        }
    }
    let harness = compiler(&root)?
        .files(&sources)
        .try_compile_intermediates()?;
    let workloads = workloads(&root)?;
    for (name, bytes, align) in PEERS {
        let unit = out.join(format!("{name}.c"));
        fs::write(
            &unit,
            format!(
                "#define FGB_PEER_BYTES {bytes}
#define FGB_PEER_ALIGN {align}
#define FGI_LOCK_FILE \"peers/rust/adapter.h\"
#include \"worker/loop.h\"
{workloads}
const struct fgb_lock fgb_worker_lock = {{\"{name}\", &fgb_carried, false}};
"
            ),
        )?;
        let unit = compiler(&root)?.file(&unit).try_compile_intermediates()?;
        for object in unit.iter().chain(&harness) {
            println!(
                "cargo::rustc-link-arg-bin=fg-bench-{name}={}",
                object.display()
            );
        }
        println!("cargo::rustc-link-arg-bin=fg-bench-{name}=-lm");
    }
    let sources = [
        "lab/worker",
        "lab/workloads",
        "lab/locks/parts",
        "lib/runtime",
        "lib/lock",
        "abi",
    ];
    for path in sources
        .iter()
        .chain(&FLAGS)
        .chain(&["lab/peers/rust/adapter.h"])
    {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    Ok(())
}
