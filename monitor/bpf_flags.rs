// SPDX-License-Identifier: MIT
// How the programs of bpf/ are compiled: by the build script, and the monitor's, broken on purpose, by the tests.

/// v3: atomic operations that return the old value.
const FLAGS: [&str; 5] = [
    "-mcpu=v3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
];

/// `root` is the project's folder, `arch` the machine's name as Debian spells it.
fn bpf_flags(root: &str, arch: &str) -> Vec<String> {
    let mut flags = vec![format!("-I{root}/abi"), format!("-I{root}/monitor/bpf")];
    flags.extend(FLAGS.map(String::from));
    let target = match arch {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    flags.push(format!("-D__TARGET_ARCH_{target}"));
    // Debian and Ubuntu keep asm/types.h, which linux/bpf.h includes, in the multiarch directory; their cross compilers
    // have it in a directory of their own.
    for directory in ["/usr/include/{}-linux-gnu", "/usr/{}-linux-gnu/include"] {
        flags.extend(["-idirafter".to_owned(), directory.replace("{}", arch)]);
    }
    flags
}

/// Compiles a kernel half with clang. `headers` is where libbpf's are.
fn compile_bpf(
    source: &std::path::Path,
    object: &std::path::Path,
    headers: &str,
    flags: &[String],
) -> Result<(), String> {
    let compiled = std::process::Command::new("clang")
        // -g for BTF. What DWARF says besides does not name the folder in which it was built.
        .args(["-target", "bpf", "-O2", "-g", "-fdebug-compilation-dir=."])
        .arg("-fno-stack-protector")
        .arg(format!("-I{headers}"))
        .args(flags)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("cannot execute clang: {e}"))?;
    if compiled.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&compiled.stderr);
    Err(format!("clang: {}\n{told}", compiled.status))
}

/// The monitor's kernel half in one text, so that a test can break any part of it. `root` is the project's folder.
#[allow(dead_code)] // the build script needs the file only
fn kernel_half(root: &str) -> String {
    let read = |name: &str| {
        let path = format!("{root}/monitor/bpf/{name}");
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let mut source = read("monitor.bpf.c");
    for header in [
        "recount.h",
        "census.h",
        "judge.h",
        "domains.h",
        "cpus.h",
        "names.h",
    ] {
        source = source.replace(&format!("#include \"{header}\"\n"), &read(header));
    }
    source
}
