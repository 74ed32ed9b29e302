// SPDX-License-Identifier: MIT
//! The sources that a guest kernel was made of.
//!
//! lab/guest/build records them beside the kernel. A kernel of other sources than those of this tree would be measured as
//! what it is not.

use std::path::Path;
use std::process::Command;

use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::prefix::Prefix;

/// Fails if the sources of the tree that this command was built in are not those of the kernel. An installed command has
/// no tree, and takes kernels as they are.
pub(super) fn check(kernels: &Path, kernel: &str, prefix: &Prefix) -> Result<()> {
    match prefix.dir().parent() {
        Some(tree) if tree.join("lab/guest/touches").is_file() => check_in(kernels, kernel, tree),
        _ => Ok(()),
    }
}

fn check_in(kernels: &Path, kernel: &str, tree: &Path) -> Result<()> {
    let record = kernels.join("sources").join(kernel);
    if !record.is_file() {
        let what = format!("it is not recorded what the guest kernel {kernel} is made of");
        return Err(Failure::new(what));
    }
    let output = Command::new("sha256sum")
        .args(["--check", "--quiet"])
        .arg(&record)
        .current_dir(tree)
        .output()
        .context("cannot start sha256sum")?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let files: Vec<&str> = text.lines().filter_map(|l| l.split(": ").next()).collect();
    let what = match files[..] {
        [] => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        _ => files.join(", "),
    };
    Err(Failure::new(format!(
        "the guest kernel {kernel} is of other sources than {}: {what}",
        tree.display()
    )))
}
