// SPDX-License-Identifier: MIT
//! `flexguard bench guests`, with a program in the place of guest/run: what it asks of it, and what it makes of the answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::common::*;
use tempfile::TempDir;

/// A directory with kernels of two locks, and one that counts. They do what `script` says with `$lock`.
fn kernels(script: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["linux-ticket", "linux-flexguard", "linux-ticket-counts"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let run = dir.path().join("run");
    let head = "#!/bin/sh\nlock=${5##*/linux-} lock=${lock%-counts}\n";
    fs::write(&run, format!("{head}{script}")).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn guests(kernels: &Path, more: &[&str]) -> Output {
    let dir = kernels.to_str().unwrap();
    let args = [
        "bench",
        "guests",
        "--kernels",
        dir,
        "--monitor",
        "off",
        "--rounds",
        "2",
        "--guests",
        "2",
        "--vcpus",
        "4",
    ];
    run(args.iter().chain(more))
}

const ANSWER: &str = "
for guest in 1 2; do
	echo \"$guest: guest: lock $lock, 4 virtual CPUs\"
	echo \"$guest: result ns 2000000000\"
	[ $lock = ticket ] && updates=1000 || updates=3000
	echo \"$guest: result updates $updates\"
	echo \"$guest: result lost ${lost:-0}\"
	[ $5 = ${5%-counts} ] || printf \"$guest: result %s\\n\" 'taken 1000' 'stalls_holder 1' 'stalls_waiter 3' \\
		'spins 4000' 'spin_ps 250000'
done
";

#[test]
fn throughput_of_all_guests_is_compared() {
    let dir = kernels(ANSWER);
    let output = guests(dir.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stdout(&output));
    assert_eq!(
        result["subjects"],
        serde_json::json!(["ticket", "flexguard"])
    );
    let median = |i: usize| result["results"][i]["measures"]["throughput"]["median"].as_f64();
    // 2 guests, 1000 or 3000 operations each, in 2 s.
    assert_eq!((median(0), median(1)), (Some(1.0), Some(3.0)));
    assert_eq!(result["results"][0]["point"]["vcpus"], 4);
}

#[test]
fn counts_are_taken_from_the_kernels_that_count() {
    let dir = kernels(ANSWER);
    let output = guests(dir.path(), &["--json", "--counts"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stdout(&output));
    assert_eq!(result["subjects"], serde_json::json!(["ticket"]));
    let measures = &result["results"][0]["measures"];
    assert_eq!(measures["taken"]["median"], 2000.0);
    assert_eq!(measures["waiter_share"]["median"], 0.75);
    // 8000 spins of both, and the sum of what each says of one spin, over two guests.
    let round = &result["results"][0]["rounds"][0]["values"];
    let spun = ["spin_share", "cpu_seconds"].map(|name| round[name].as_f64().unwrap());
    assert!((spun[0] * spun[1] / 2e-3 - 1.0).abs() < 1e-9, "{spun:?}");
}

/// It was built when the counters had other names: nothing spun would be a wrong answer.
#[test]
fn a_kernel_that_counts_no_spins_fails_the_run() {
    let dir = kernels(&ANSWER.replace("'spins 4000'", "'turns 4000'"));
    let output = guests(dir.path(), &["--counts"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("guest/build --counts"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_lost_update_fails_the_run() {
    let dir = kernels(&format!("lost=1\n{ANSWER}"));
    let output = guests(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("an update was lost"),
        "{}",
        stderr(&output)
    );
}

/// Its kernel was built for another version of the ABI: what it measured is not what was asked for.
#[test]
fn a_guest_that_cannot_use_the_monitor_fails_the_run() {
    let dir = kernels(&format!(
        "echo '1: flexguard: no monitor: Protocol error'\n{ANSWER}"
    ));
    let output = guests(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("no monitor: Protocol error"), "{text}");
    assert!(text.contains("guest/build"), "{text}");
}

#[test]
fn a_guest_that_does_not_boot_fails_the_run() {
    let dir = kernels("echo '1: Kernel panic'; exit 1\n");
    let output = guests(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("Kernel panic"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn absent_kernels_are_named_with_what_makes_them() {
    let empty = tempfile::tempdir().unwrap();
    let dir = kernels(ANSWER);
    for (kernels, more, text) in [
        (empty.path(), &[][..], "no guest kernels"),
        (dir.path(), &["--locks", "mcs"][..], "`mcs`"),
        (
            dir.path(),
            &["--locks", "flexguard", "--counts"][..],
            "--counts",
        ),
    ] {
        let output = guests(kernels, more);
        assert_eq!(output.status.code(), Some(125));
        let text_there = stderr(&output);
        assert!(
            text_there.contains(text) && text_there.contains("guest/build"),
            "{text_there}"
        );
    }
}
