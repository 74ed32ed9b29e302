// SPDX-License-Identifier: MIT
// How bpf/monitor.bpf.c is compiled: by the build script, and broken on purpose by the tests.

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
    let mut flags = vec![format!("-I{root}/abi"), format!("-I{root}/bpf")];
    flags.extend(FLAGS.map(String::from));
    // Debian and Ubuntu keep asm/types.h, which linux/bpf.h includes, in the multiarch directory.
    flags.extend([
        "-idirafter".to_owned(),
        format!("/usr/include/{arch}-linux-gnu"),
    ]);
    flags
}
