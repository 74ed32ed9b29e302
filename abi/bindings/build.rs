// SPDX-License-Identifier: MIT
//! Generates the Rust side of the ABI from the C header, so that there is nothing to keep in step by hand.

use std::env;
use std::path::PathBuf;

use bindgen::callbacks::{DeriveInfo, ParseCallbacks};

/// Every structure of the ABI is plain old data without padding; zerocopy checks it when it derives these.
#[derive(Debug)]
struct PlainData;

impl ParseCallbacks for PlainData {
    fn add_derives(&self, _: &DeriveInfo<'_>) -> Vec<String> {
        ["FromBytes", "IntoBytes", "KnownLayout", "Immutable"]
            .map(|name| format!("zerocopy::{name}"))
            .to_vec()
    }
}

fn main() {
    let header = "../flexguard_abi.h";
    println!("cargo:rerun-if-changed={header}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindgen::Builder::default()
        .header(header)
        .allowlist_item("(fg|FG)_.*")
        .blocklist_item("FG_ABI_(ASSERT|AT)")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .generate_cstr(true)
        .parse_callbacks(Box::new(PlainData))
        .generate()
        .expect("bindgen reads abi/flexguard_abi.h")
        .write_to_file(out.join("abi.rs"))
        .expect("OUT_DIR is writable");

    let header = "../flexguard_profile.h";
    println!("cargo:rerun-if-changed={header}");
    bindgen::Builder::default()
        .header(header)
        .allowlist_type("fg_profile")
        .allowlist_var("FG_PROFILE_.*")
        .derive_copy(false)
        .derive_debug(false)
        .generate_cstr(true)
        .parse_callbacks(Box::new(PlainData))
        .generate()
        .expect("bindgen reads abi/flexguard_profile.h")
        .write_to_file(out.join("profile.rs"))
        .expect("OUT_DIR is writable");
}
