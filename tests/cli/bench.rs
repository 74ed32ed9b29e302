// SPDX-License-Identifier: MIT
//! `flexguard bench`: the order of the runs, the report, failures, Ctrl-C.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::*;
use serde_json::Value;

/// An installation whose fg-bench is a shell script: a run takes no time, and the test decides what it measures.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["share/flexguard", "libexec/flexguard"] {
            fs::create_dir_all(dir.path().join(sub)).unwrap();
        }
        fs::write(
            dir.path().join("share/flexguard/LOCKS"),
            "a\ta\tspin\tA\nb\tb\tblock\tB\n",
        )
        .unwrap();
        let worker = dir.path().join("libexec/flexguard/fg-bench");
        // $3 is the lock, $5 the thread count; `result N` prints a result with throughput N.
        let head = format!(
            "#!/bin/sh\ndir={}\nlock=$3; threads=$5; echo $lock $threads >>$dir/log; n=$(wc -l <$dir/log)\n{RESULT}\n",
            dir.path().display()
        );
        fs::write(&worker, head + script).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn shm(&self, args: &[&str]) -> Command {
        let mut command = flexguard();
        command
            .args(["bench", "shm", "--monitor", "off"])
            .args(args)
            .env("FLEXGUARD_PREFIX", self.path());
        command
    }

    fn order(&self) -> Vec<String> {
        fs::read_to_string(self.path().join("log"))
            .unwrap()
            .lines()
            .map(Into::into)
            .collect()
    }
}

const RESULT: &str = r#"result() { echo '{"throughput_ops_per_ms":'$1',"cs_ns":{"mean":1.5,"p50":1,"p99":2,"p999":3,"max":4},
"fairness_factor":0.5,"longest_wait_ns":1500,"cpu_seconds":0.25,"ops":10,"seconds":1,"spins":0,"parks":0}'; }"#;

#[test]
fn rounds_are_interleaved_and_the_order_rotates() {
    let fake = Fake::new("result $n");
    let output = fake
        .shm(&[
            "--locks",
            "posix,a,b",
            "--threads",
            "1,2",
            "--rounds",
            "2",
            "--json",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = [
        "posix 1", "a 1", "b 1", "posix 2", "a 2", "b 2", "a 1", "b 1", "posix 1", "a 2", "b 2",
        "posix 2",
    ];
    assert_eq!(fake.order(), expected);
}

#[test]
fn the_report_has_medians_ratios_and_the_machine() {
    let fake = Fake::new("case $lock in posix) result 10$n;; *) result 20$n;; esac");
    let file = fake.path().join("out.json");
    let args = [
        "--locks",
        "posix,a",
        "--threads",
        "4",
        "--rounds",
        "3",
        "-o",
        file.to_str().unwrap(),
    ];
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(report["schema"], "flexguard-bench-shm/1");
    assert_eq!(report["complete"], true);
    assert_eq!(report["failures"], Value::Array(vec![]));
    assert_eq!(report["settings"]["threads"], serde_json::json!([4]));
    assert_eq!(report["monitor"]["active"], false);
    for key in [
        "cpu",
        "hardware_contexts",
        "memory_kib",
        "kernel",
        "load_average",
    ] {
        assert!(report["machine"].get(key).is_some(), "{key}");
    }
    for key in ["command", "date", "version", "commit"] {
        assert!(report.get(key).is_some(), "{key}");
    }
    // Runs in order: posix 101, a 202; a 203, posix 104; posix 105, a 206.
    let a = &report["results"][1];
    assert_eq!(
        (a["lock"].as_str(), a["threads"].as_u64()),
        (Some("a"), Some(4))
    );
    assert_eq!(
        a["throughput_ops_per_ms"],
        serde_json::json!({"median": 203.0, "min": 202.0, "max": 206.0})
    );
    let ratio = a["ratio"]["median"].as_f64().unwrap();
    assert!((ratio - 206.0 / 105.0).abs() < 1e-9, "{ratio}");
    assert_eq!(a["preempted_critical_sections"], Value::Null);
    assert_eq!(a["rounds"][0]["worker"]["ops"], 10);
    let table = stdout(&output);
    assert!(
        table.contains("203 (202-206)") && table.contains("1.5 us"),
        "{table}"
    );
}

#[test]
fn all_means_posix_and_every_lock_once() {
    let fake = Fake::new("result 1");
    let output = fake
        .shm(&["--locks", "a,all", "--threads", "1", "--rounds", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fake.order(), ["a 1", "posix 1", "b 1"]);
}

#[test]
fn a_lock_that_fails_is_reported_and_the_others_go_on() {
    let fake = Fake::new("if [ $lock = a ]; then echo torn data >&2; exit 3; fi; result 5");
    let output = fake
        .shm(&[
            "--locks",
            "a,b",
            "--threads",
            "2",
            "--rounds",
            "2",
            "--json",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fake.order(), ["a 2", "b 2", "b 2"]);
    let report = json(&stdout(&output));
    assert_eq!(report["complete"], false);
    assert_eq!(report["results"][1]["throughput_ops_per_ms"]["median"], 5.0);
    assert_eq!(report["failures"].as_array().unwrap().len(), 1);
    let text = stderr(&output);
    assert!(
        text.contains("a, 2 threads: exit status 3") && text.contains("torn data"),
        "{text}"
    );
}

#[test]
fn a_result_that_makes_no_sense_is_a_failure() {
    let fake = Fake::new("echo '{\"ops\": 1}'");
    let output = fake
        .shm(&["--locks", "a", "--threads", "1", "--rounds", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("throughput_ops_per_ms"),
        "{}",
        stderr(&output)
    );
}

/// The third run tells us that it has begun, through a FIFO, and then takes forever.
#[test]
fn ctrl_c_keeps_what_was_measured() {
    let fake = Fake::new("if [ $n = 3 ]; then echo begun >$dir/fifo; sleep 1000; fi; result $n");
    let fifo = fake.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let file = fake.path().join("out.json");
    let child = fake
        .shm(&[
            "--locks",
            "a,b",
            "--threads",
            "1",
            "--rounds",
            "2",
            "-o",
            file.to_str().unwrap(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(fs::read_to_string(&fifo).unwrap(), "begun\n");
    // SAFETY: sends a signal to a process that this test started.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    assert!(
        stdout(&output).contains("INCOMPLETE") && stdout(&output).contains("1.00 (1.00-1.00)"),
        "{}",
        stdout(&output)
    );
    let report = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(report["complete"], false);
    assert_eq!(report["results"][0]["rounds"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_arguments_fail_before_anything_runs() {
    let fake = Fake::new("result 1");
    for (args, code) in [
        (&["--locks", "c"][..], 125),
        (&["--threads", "0"], 2),
        (&["--rounds", "0"], 2),
        (&["--seconds", "-1"], 2),
        (&["-o", "/no/such/dir/x.json"], 125),
    ] {
        assert_eq!(
            fake.shm(args).output().unwrap().status.code(),
            Some(code),
            "{args:?}"
        );
    }
    assert!(!fake.path().join("log").exists());
}

#[test]
fn exec_compares_a_program_under_each_lock() {
    let args = [
        "bench",
        "exec",
        "--monitor",
        "off",
        "--locks",
        "posix,mcs",
        "--rounds",
        "3",
        "--json",
    ];
    let program = [
        "--score",
        "score ([0-9]+)",
        "--",
        "sh",
        "-c",
        "echo secret; echo score ${LD_PRELOAD:+2}0",
    ];
    let output = run([&args[..], &program].concat());
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    let report = json(&stdout(&output));
    assert_eq!(report["schema"], "flexguard-bench-exec/1");
    assert_eq!(report["results"][1]["lock"], "mcs");
    assert_eq!(report["results"][1]["score"]["median"], 20.0);
    assert_eq!(report["results"][1]["rounds"].as_array().unwrap().len(), 3);
    assert!(
        report["results"][0]["elapsed_seconds"]["median"]
            .as_f64()
            .unwrap()
            > 0.0
    );

    let table = stdout(&run([
        "bench",
        "exec",
        "--monitor",
        "off",
        "--rounds",
        "1",
        "--",
        "sh",
        "-c",
        "echo secret",
    ]));
    let titles = [
        "lock",
        "time s",
        "ratio",
        "preempted critical sections",
        "spin->block transitions",
    ];
    assert!(
        titles.iter().all(|title| table.contains(title)) && !table.contains("secret"),
        "{table}"
    );
}

#[test]
fn exec_shows_the_output_of_a_program_that_fails() {
    let script = "echo why it failed; [ -z \"$LD_PRELOAD\" ]";
    let output = run([
        "bench",
        "exec",
        "--monitor",
        "off",
        "--locks",
        "posix,futex",
        "--rounds",
        "1",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("futex: exit status 1")
            && text.contains("why it failed")
            && !text.contains("posix:"),
        "{text}"
    );
}

#[test]
fn exec_of_nothing_is_told_like_run_does() {
    let output = run([
        "bench",
        "exec",
        "--monitor",
        "off",
        "--locks",
        "posix",
        "--",
        "/no/such/program",
    ]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    let output = run([
        "bench",
        "exec",
        "--monitor",
        "off",
        "--locks",
        "posix",
        "--score",
        "x",
        "true",
    ]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
}

#[test]
fn exec_gives_up_on_a_program_that_hangs() {
    let output = run([
        "bench",
        "exec",
        "--monitor",
        "off",
        "--locks",
        "posix",
        "--timeout",
        "0.2",
        "--",
        "sleep",
        "1000",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("killed after 0.2 s"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_real_worker_speaks_the_same_language() {
    let args = [
        "bench",
        "shm",
        "--monitor",
        "off",
        "--locks",
        "posix,futex",
        "--threads",
        "2",
        "--rounds",
        "1",
    ];
    let output = run([&args[..], &["--seconds", "0.05", "--warmup", "0", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&stdout(&output));
    for result in report["results"].as_array().unwrap() {
        assert!(
            result["throughput_ops_per_ms"]["median"].as_f64().unwrap() > 0.0,
            "{result}"
        );
    }
}
