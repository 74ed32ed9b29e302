// SPDX-License-Identifier: MIT
//! Tells the linker where the C library is: in `$FLEXGUARD_LIB_DIR`, or where `make` puts it in this tree. Where it is not
//! there, the user learns what to do.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=FLEXGUARD_LIB_DIR");
    let directory = env::var_os("FLEXGUARD_LIB_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/lib"),
        PathBuf::from,
    );
    println!("cargo:rustc-link-search=native={}", directory.display());
    // Linked into the program, not bundled into this crate: `cargo check` needs no library.
    println!("cargo:rustc-link-lib=static:-bundle=flexguard");
    let library = directory.join("libflexguard.a");
    println!("cargo:rerun-if-changed={}", library.display());
    if !library.exists() {
        println!(
            "cargo:warning={} is missing, and programs link it: run `make` in FlexGuard's tree, or set FLEXGUARD_LIB_DIR to \
             the directory that has it",
            library.display()
        );
    }
}
