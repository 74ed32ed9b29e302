// SPDX-License-Identifier: MIT
//! What the crate's build script says to Cargo, and Cargo to the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script by itself, compiled in an empty directory.
fn script() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build-script");
    let _ = fs::remove_dir_all(&dir); // of an earlier test
    fs::create_dir_all(&dir).unwrap();
    let script = dir.join("script");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "build.rs", "-o"])
        .arg(&script);
    rustc.env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    assert!(rustc.status().expect("rustc starts").success());
    script
}

#[test]
fn a_missing_library_is_named_with_what_to_do() {
    let script = script();
    let dir = script.parent().unwrap();
    let library = dir.join("libflexguard.a");
    let warnings = || {
        let output = Command::new(&script).env("FLEXGUARD_LIB_DIR", dir).output();
        let said = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(
            said.contains("rustc-link-lib=static:-bundle=flexguard\n"),
            "{said}"
        );
        let warnings = said
            .lines()
            .filter_map(|line| line.strip_prefix("cargo:warning="));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    let said = warnings().join("\n");
    for words in [library.to_str().unwrap(), "`make`", "FLEXGUARD_LIB_DIR"] {
        assert!(said.contains(words), "{said}");
    }
    fs::write(&library, "").unwrap();
    assert_eq!(warnings(), [""; 0]);
}
