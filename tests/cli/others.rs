// SPDX-License-Identifier: MIT
//! `flexguard list`, `doctor`, `completions`, `man`.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::common::*;

#[test]
fn list_starts_with_posix_and_has_every_lock_of_the_index() {
    let output = run(["list"]);
    assert_eq!(output.status.code(), Some(0));
    let names: Vec<String> = stdout(&output)
        .lines()
        .map(|l| l.split_whitespace().next().unwrap().into())
        .collect();
    assert_eq!(names[0], "posix");
    let index = std::fs::read_to_string(prefix().join("share/flexguard/LOCKS")).unwrap();
    let indexed: Vec<&str> = index
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|l| l.split('\t').next().unwrap())
        .collect();
    assert!(!indexed.is_empty());
    assert_eq!(names[1..], indexed);

    let listed = json(&stdout(&run(["list", "--json"])));
    let in_json: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["name"].as_str().unwrap())
        .collect();
    assert_eq!(in_json, names);
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .all(|l| l["class"].is_string() && l["brief"].is_string())
    );
}

#[test]
fn a_reader_that_has_gone_ends_the_command_like_any_filter() {
    let mut child = flexguard()
        .arg("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // It may have written before the pipe was closed.
    assert!(
        output.status.code() == Some(0) || output.status.signal() == Some(libc::SIGPIPE),
        "{:?}",
        output.status
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = flexguard().arg("list").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("stdout"), "{}", stderr(&output));
}

#[test]
fn doctor_checks_everything_and_its_exit_code_says_the_verdict() {
    let output = run(["doctor", "--json"]);
    let report = json(&stdout(&output));
    assert_eq!(report["schema"], "flexguard-doctor/1");
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|c| c["name"].as_str().unwrap()).collect();
    let expected = words(
        "machine kernel btf capabilities lockdown monitor-program bpf-jit unprivileged-bpf seccomp-filters
         monitor-daemon locks glibc rseq slice-extension",
    );
    assert_eq!(names, expected);
    let works = checks.iter().all(|c| c["state"] != "missing");
    assert_eq!(report["works"], works);
    assert_eq!(output.status.code(), Some(if works { 0 } else { 1 }));
    let unexplained: Vec<_> = checks
        .iter()
        .filter(|c| c["state"] == "missing" && c["advice"].is_null())
        .collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
    let text = stdout(&run(["doctor"]));
    assert!(expected.iter().all(|name| text.contains(name)), "{text}");
}

/// Whether a slice lock can run is asked of the same probe by both.
#[test]
fn doctor_agrees_with_run_about_the_slice_extension() {
    let report = json(&stdout(&run(["doctor", "--json"])));
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|c| c["name"] == "slice-extension");
    let tas_slice = words("run --monitor off --lock tas-slice -- true");
    let expected = match run(tas_slice).status.code() {
        Some(0) => "ok",
        Some(125) => "absent",
        status => panic!("{status:?}"),
    };
    assert_eq!(check.unwrap()["state"], expected);
}

#[test]
fn doctor_agrees_with_the_monitor() {
    if !bpf("doctor_agrees_with_the_monitor") {
        return;
    }
    let output = run(["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn doctor_without_privilege_is_degraded() {
    let output = unprivileged().arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("NOT OK  capabilities"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn doctor_without_btf_is_degraded() {
    let output = flexguard()
        .arg("doctor")
        .env("FLEXGUARD_BTF", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(
        text.contains("NOT OK  btf") && text.contains("CONFIG_DEBUG_INFO_BTF"),
        "{text}"
    );
}

#[test]
fn doctor_finds_a_missing_lock() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("share/flexguard")).unwrap();
    std::fs::write(
        dir.path().join("share/flexguard/LOCKS"),
        "mine\tspin\ta lock\n",
    )
    .unwrap();
    let output = flexguard()
        .args(["doctor", "--json"])
        .env("FLEXGUARD_PREFIX", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = json(&stdout(&output));
    let locks = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["name"] == "locks")
        .unwrap()
        .clone();
    assert!(
        locks["state"] == "missing" && locks["found"].as_str().unwrap().contains("mine"),
        "{locks}"
    );
}

#[test]
fn man_pages_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let man = dir.path().join("man1");
    assert_eq!(
        run(["man".as_ref(), man.as_os_str()]).status.code(),
        Some(0)
    );
    let page = man.join("flexguard-run.1");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.contains(".SH \"EXIT STATUS\"") && text.contains("LD_PRELOAD"),
        "{text}"
    );
    let written = std::fs::metadata(&page).unwrap().modified().unwrap();
    assert_eq!(
        run(["man".as_ref(), man.as_os_str()]).status.code(),
        Some(0)
    );
    assert_eq!(
        std::fs::metadata(&page).unwrap().modified().unwrap(),
        written
    );
    assert!(man.join("flexguard-bench-shm.1").is_file() && man.join("flexguard.1").is_file());
}

#[test]
fn completions_name_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = stdout(&output);
        for word in ["doctor", "flexguard-sosp25"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn help_and_version_of_a_subcommand_are_there_in_either_order() {
    let helps = [["help", "run"], ["run", "--help"]].map(|words| stdout(&run(words)));
    assert!(helps[0].contains("Run a program with its mutexes replaced"));
    assert_eq!(helps[0], helps[1]);
    assert_eq!(stdout(&run(["run", "-V"])).split(' ').count(), 2);
}

/// An installation as `make` leaves it: the workers are built apart.
#[test]
fn without_workers_bench_says_how_they_are_built_and_names_the_workloads() {
    let dir = tempfile::tempdir().unwrap();
    for part in ["lib", "share"] {
        std::os::unix::fs::symlink(prefix().join(part), dir.path().join(part)).unwrap();
    }
    for workload in ["shm", "misspelt"] {
        let mut command = flexguard();
        command.env("FLEXGUARD_PREFIX", dir.path());
        let output = command.args(["bench", workload]).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(
            said.contains("run `make workers`") && said.contains("shm"),
            "{said}"
        );
        assert!(!said.contains("cannot execute"), "{said}");
    }
}
