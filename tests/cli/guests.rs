// SPDX-License-Identifier: MIT
//! `flexguard bench guests`, with a program in the place of lab/guest/run: what it asks of it, and what it makes of the answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::*;
use tempfile::TempDir;

/// A directory with kernels of two locks, and one that counts. They do what `script` says with `$lock`.
fn kernels(script: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sources")).unwrap();
    for name in ["linux-ticket", "linux-flexguard", "linux-ticket-counts"] {
        fs::write(dir.path().join(name), "").unwrap();
        made_of_this_tree(dir.path(), name);
    }
    let run = dir.path().join("run");
    let head = "#!/bin/sh\nlock=${5##*/linux-} lock=${lock%-counts}\n";
    fs::write(&run, format!("{head}{script}")).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// As lab/guest/build records it.
fn made_of_this_tree(kernels: &Path, kernel: &str) {
    let tree = prefix().parent().unwrap().to_owned();
    let output = Command::new("sha256sum")
        .arg("lab/guest/kernel/lock.h")
        .current_dir(tree)
        .output();
    fs::write(kernels.join("sources").join(kernel), output.unwrap().stdout).unwrap();
}

fn guests(kernels: &Path, more: &[&str]) -> Output {
    guests_command(kernels, more).output().unwrap()
}

fn guests_command(kernels: &Path, more: &[&str]) -> Command {
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
    let mut command = flexguard();
    command.args(args).args(more);
    command
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
        stderr(&output).contains("lab/guest/build --counts"),
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
    assert!(text.contains("lab/guest/build"), "{text}");
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
            text_there.contains(text) && text_there.contains("lab/guest/build"),
            "{text_there}"
        );
    }
}

/// It would be measured as a lock that it is not.
#[test]
fn a_kernel_of_other_sources_is_refused() {
    let dir = kernels(ANSWER);
    let record = dir.path().join("sources/linux-flexguard");
    let old = fs::read_to_string(&record).unwrap();
    let first = if old.starts_with('0') { "1" } else { "0" };
    fs::write(&record, format!("{first}{}", &old[1..])).unwrap();
    for text in ["lab/guest/kernel/lock.h", "not recorded"] {
        let output = guests(dir.path(), &[]);
        assert_eq!(output.status.code(), Some(125));
        let told = stderr(&output);
        for part in [text, "linux-flexguard", "lab/guest/build"] {
            assert!(told.contains(part), "{told}");
        }
        let _ = fs::remove_file(&record);
    }
}

/// `bench scenes` goes on from there.
#[test]
fn a_killed_run_keeps_its_finished_rounds_and_leaves_the_home_directory_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let hang = "here=${0%/run}; echo >>$here/runs; \
        [ $(wc -l <$here/runs) != 4 ] || { echo $$ >$here/hangs; exec sleep 1000; }\n";
    let dir = kernels(&format!("{hang}{ANSWER}"));
    let (out, hangs) = (dir.path().join("out.json"), dir.path().join("hangs"));
    let asked = ["-o", out.to_str().unwrap()];
    let mut command = guests_command(dir.path(), &asked);
    command.env("HOME", home.path()).stdout(Stdio::null());
    let mut run = command.spawn().unwrap();
    // The fourth run: the second lock of the second round.
    let guest = loop {
        assert!(run.try_wait().unwrap().is_none(), "it has ended already");
        match fs::read_to_string(&hangs).map(|text| text.trim().parse::<i32>()) {
            Ok(Ok(guest)) => break guest,
            _ => std::thread::yield_now(),
        }
    };
    run.kill().unwrap();
    run.wait().unwrap();
    let kept = |i: usize| {
        let result = json(&fs::read_to_string(&out).unwrap());
        result["results"][i]["rounds"].as_array().unwrap().len() as u64
    };
    // Rounds in which the host moved the CPUs do not count, and are made up for: two runs each.
    let moved = json(&fs::read_to_string(&out).unwrap())["moved_rounds"].as_u64();
    assert_eq!(kept(0) + kept(1) + 2 * moved.unwrap(), 3);
    // The guest ends with the run; if it did not, the test would not end.
    while Path::new(&format!("/proc/{guest}/exe")).exists() {
        std::thread::yield_now();
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

const TURNS: &str = "
for guest in 1 2; do
	echo \"$guest: guest: lock $lock, 4 virtual CPUs\"
	[ $lock = ticket ] && least=900 || least=1000
	printf \"$guest: result %s\\n\" 'ns 2000000000' 'updates 4000' 'lost 0' 'ops 1000' \"least_updates $least\" \\
		'most_updates 1000' 'mean_ns 1000000000' 'deviation_ns 0'
done
";

/// Threads that were all ended by the clock have taken the same time, which says nothing of the lock.
#[test]
fn a_round_of_turns_that_its_limit_ends_has_no_deviation() {
    let dir = kernels(TURNS);
    let output = guests(dir.path(), &["--json", "--load", "turns"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stdout(&output));
    let measures = |i: usize| &result["results"][i]["measures"];
    assert_eq!(measures(0)["complete"]["median"], 0.0);
    assert!(measures(0)["deviation"].is_null() && measures(0)["thread_ms"].is_null());
    assert_eq!(measures(1)["complete"]["median"], 1.0);
    assert_eq!(measures(1)["deviation"]["median"], 0.0);
}
