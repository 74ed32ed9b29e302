// SPDX-License-Identifier: MIT
//! `flexguard bench`: the order of the runs, the report, failures, Ctrl-C.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::fake::Fake;
use crate::common::*;
use serde_json::{Value, json as object};

#[test]
fn rounds_are_interleaved_and_the_order_rotates() {
    let fake = Fake::new("result $n");
    let output = fake
        .shm(&words("--locks posix,a,b --threads 1,2 --rounds 2 --json"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = [
        "posix 1", "a 1", "b 1", "posix 2", "a 2", "b 2", "a 1", "b 1", "posix 1", "a 2", "b 2",
        "posix 2",
    ];
    assert_eq!(fake.order(), expected);
}

fn says_where_it_ran(result: &Value) {
    for key in words("cpu hardware_contexts memory_kib kernel libc governor scheduler cpu_quota") {
        assert!(result["machine"].get(key).is_some(), "{key}");
    }
    for key in words("command date version commit build load environment") {
        assert!(result.get(key).is_some(), "{key}");
    }
}

#[test]
fn the_result_has_medians_ratios_and_the_machine() {
    let fake = Fake::new("case $lock in posix) result 10$n;; *) result 20$n;; esac");
    let file = fake.path().join("out.json");
    let args = format!(
        "--locks posix,a --threads 4 --rounds 3 -o {}",
        file.display()
    );
    let args = words(&args);
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(result["schema"], "flexguard-bench/2");
    assert_eq!(result["workload"], "shm");
    assert_eq!(result["complete"], true);
    assert_eq!(result["failures"], Value::Array(vec![]));
    assert_eq!(result["settings"]["threads"], object!([4]));
    assert_eq!(result["monitor"]["active"], false);
    says_where_it_ran(&result);
    // Runs in order: posix 101, a 202; a 203, posix 104; posix 105, a 206.
    let a = &result["results"][1];
    assert_eq!(
        (&a["subject"], &a["point"]),
        (&object!("a"), &object!({"threads": 4}))
    );
    assert_eq!(
        a["measures"]["throughput_ops_per_ms"],
        object!({"n": 3, "median": 203.0, "low": 202.0, "high": 206.0, "confidence": 0.75, "min": 202.0, "max": 206.0})
    );
    // The middle of the means of pairs: 206/105, 2 and 203/104 are 1.9619, 2 and 1.9519.
    let ratio = a["ratio"]["median"].as_f64().unwrap();
    assert!(
        (ratio - (206.0f64 / 105.0 * 202.0 / 101.0 * (203.0 / 104.0)).cbrt()).abs() < 0.01,
        "{ratio}"
    );
    assert_eq!(a["against_first"], "too-few-rounds");
    assert_eq!(a["measures"].get("preempted_per_s"), None);
    assert_eq!(a["rounds"][0]["detail"]["ops"], 10);
    let table = stdout(&output);
    assert!(
        table.contains("203 (202-206)")
            && table.contains("1.5 µs")
            && table.contains("too few rounds"),
        "{table}"
    );
}

#[test]
fn a_winner_beats_every_other_lock() {
    let fake =
        Fake::new("case $lock in b) result $((20 + n % 7));; *) result $((100 + n % 7));; esac");
    let args = words("--locks posix,a,b --threads 1 --noise --json");
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stdout(&output));
    let entries = result["results"].as_array().unwrap();
    let labels: Vec<(&str, bool)> = entries
        .iter()
        .map(|e| (e["subject"].as_str().unwrap(), e["again"] == true))
        .collect();
    assert_eq!(
        labels,
        [
            ("posix", false),
            ("posix", true),
            ("a", false),
            ("b", false)
        ]
    );
    assert!(result["noise"]["typical"].as_f64().unwrap() >= 0.0);
    let verdict = &result["verdicts"][0];
    assert_eq!(verdict["wins"], false, "{verdict}");
    assert!(!verdict["level"].as_array().unwrap().contains(&object!("b")));
    assert_eq!(entries[3]["against_first"], "worse");
}

#[test]
fn every_variable_reaches_the_worker() {
    let fake = Fake::new("result 1");
    let args = "--locks a --threads 2 --rounds 1 --seconds 0.5 --warmup 0.25 --cycles-between 7,8 --section-cycles 9 --lines 3 \
                --lock-count 5 --hold-sleep-us 6 --hogs 0,4 --nice=-5,5 --trace-us 100";
    let args: Vec<&str> = args.split_whitespace().filter(|w| *w != "\\").collect();
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let start = "shm --lock a --threads 2 --seconds 0.5 --warmup 0.25 ";
    let rest = |hogs: &str, between: &str| {
        format!(
            "{start}{hogs}--nice -5,5 --trace-us 100 --lines 3 --section-cycles 9 --lock-count 5 --cycles-between {between} --hold-sleep-us 6"
        )
    };
    let expected = [
        rest("", "7"),
        rest("", "8"),
        rest("--hogs 4 ", "7"),
        rest("--hogs 4 ", "8"),
    ];
    assert_eq!(fake.calls(), expected);
}

#[test]
fn defaults_are_left_to_the_worker() {
    let fake = Fake::new("result 1");
    for (workload, threads) in [("shm", "3"), ("hashtable", "4")] {
        let args = [
            workload,
            "--locks",
            "a",
            "--threads",
            threads,
            "--rounds",
            "1",
        ];
        let output = fake.bench(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let expected = [
        "shm --lock a --threads 3 --seconds 1 --warmup 0.1",
        "hashtable --lock a --threads 4 --seconds 1 --warmup 0.1",
    ];
    assert_eq!(fake.calls(), expected);
}

#[test]
fn columns_are_chosen_by_name() {
    let fake = Fake::new("result 1");
    let args = words("--locks a --threads 1 --rounds 1 --columns");
    let chosen = fake
        .shm(&[&args[..], &["cs_p999_ns,spins_per_op"]].concat())
        .output()
        .unwrap();
    let table = stdout(&chosen);
    assert!(
        table.contains("section p99.9")
            && table.contains("spins/op")
            && !table.contains("fairness"),
        "{table}"
    );
    let all = stdout(&fake.shm(&[&args[..], &["all"]].concat()).output().unwrap());
    assert!(
        all.contains("fairness") && all.contains("section p50"),
        "{all}"
    );
    // Not measured, so not shown.
    assert!(!all.contains("memory"), "{all}");
}

#[test]
fn warm_up_rounds_are_run_and_not_recorded() {
    let fake = Fake::new("result $n");
    let args = words("--locks a,b --threads 1 --rounds 1 --warmup-rounds 2 --json");
    let result = json(&stdout(&fake.shm(&args).output().unwrap()));
    assert_eq!(fake.order().len(), 6);
    assert_eq!(result["results"][0]["rounds"].as_array().unwrap().len(), 1);
    assert_eq!(
        result["results"][0]["rounds"][0]["values"]["throughput_ops_per_ms"],
        5.0
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
fn locks_of_others_are_known_by_name_and_as_peers() {
    let fake = Fake::new("result 1");
    let output = fake
        .shm(&["--locks", "a,peers", "--threads", "1", "--rounds", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fake.order(), ["a 1", "peer 1"]);
}

#[test]
fn a_lock_that_cannot_run_here_is_no_failure() {
    let fake =
        Fake::new("if [ $lock = a ]; then echo no slice extension >&2; exit 77; fi; result 1");
    let args = ["--locks", "a,b", "--threads", "1,2", "--rounds", "2"];
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("cannot run here: a: no slice extension"),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        fake.order().iter().filter(|l| l.starts_with('a')).count(),
        1
    );
}

#[test]
fn a_lock_that_fails_is_reported_and_the_others_go_on() {
    let fake = Fake::new("if [ $lock = a ]; then echo torn data >&2; exit 3; fi; result 5");
    let output = fake
        .shm(&words("--locks a,b --threads 2 --rounds 2 --json"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fake.order(), ["a 2", "b 2", "b 2"]);
    let report = json(&stdout(&output));
    assert_eq!(report["complete"], false);
    assert_eq!(
        report["results"][1]["measures"]["throughput_ops_per_ms"]["median"],
        5.0
    );
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
const THIRD_HANGS: &str = "if [ $n = 3 ]; then echo begun >$dir/fifo; sleep 1000; fi; result $n";

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let fake = Fake::new(THIRD_HANGS);
    let file = fake.path().join("out.json");
    let args = format!("--locks a,b --threads 1 --rounds 2 -o {}", file.display());
    let args = words(&args);
    let (child, _) = fake.begin(&mut fake.shm(&args));
    kill(child.id(), libc::SIGINT);
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

/// Whether a process that is not ours to wait for ends, or has ended.
fn ends(pid: i32) -> bool {
    let is_running = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim()
            .chars()
            .next();
        state.is_some_and(|s| s != 'Z' && s != 'X')
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    !is_running()
}

#[test]
fn a_kill_keeps_what_was_measured() {
    let fake = Fake::new("if [ $n = 3 ]; then echo $$ >$dir/fifo; exec sleep 1000; fi; result $n");
    let file = fake.path().join("out.json");
    let args = format!("--locks a,b --threads 1 --rounds 2 -o {}", file.display());
    let args = words(&args);
    let (mut child, said) = fake.begin(&mut fake.shm(&args));
    let worker: i32 = said.trim().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ends(worker), "the worker has outlived the command");
    let result = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(result["complete"], false);
    for entry in result["results"].as_array().unwrap() {
        assert_eq!(entry["rounds"].as_array().unwrap().len(), 1, "{entry}");
    }
}

#[test]
fn bad_arguments_fail_before_anything_runs() {
    let fake = Fake::new("result 1");
    for (args, code) in [
        (&["--locks", "c"][..], 125),
        (&["--threads", "0"], 2),
        (&["--threads", "0x"], 2),
        (&["--rounds", "0"], 2),
        (&["--seconds", "-1"], 2),
        (&["--seconds", "nan"], 2),
        (&["--nice", "40"], 2),
        (&["--columns", "beauty"], 125),
        (&["-o", "/no/such/dir/x.json"], 125),
        (&["-o", "/"], 125),
        (&["--html", "/no/such/dir/x.html"], 125),
        (&["--plots", "/proc/no/such"], 125),
    ] {
        let output = fake.shm(args).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(!stderr(&output).is_empty());
    }
    assert!(!fake.has_run());
}

/// They are declared in C, once: the command has their names, texts and ranges from `fg-bench --options`.
#[test]
fn the_options_of_workloads_are_the_workers() {
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let told = Command::new(worker).arg("--options").output().unwrap();
    let told = json(&stdout(&told));
    assert_eq!(told["version"], 1);
    let all = stdout(&run(["bench", "--help"]));
    let mut refused = 0;
    for workload in told["workloads"].as_array().unwrap() {
        let name = workload["name"].as_str().unwrap();
        let help = stdout(&run(["bench", name, "--help"]));
        let brief = workload["brief"].as_str().unwrap();
        let begin = brief.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(
            help.starts_with(&begin) && all.contains(&begin),
            "{name}: {begin}: {help}\n{all}"
        );
        for option in workload["options"].as_array().unwrap() {
            let flag = format!("--{}", option["name"].as_str().unwrap());
            let brief = option["brief"].as_str().unwrap();
            let first = brief.split(' ').next().unwrap();
            assert!(
                help.contains(&flag) && help.contains(first),
                "{name} {flag}: {help}"
            );
            if let Some(max) = option["max"].as_f64() {
                let output = run(["bench", name, &flag, &(2.0 * max + 1.0).to_string()]);
                let said = stderr(&output);
                assert_eq!(output.status.code(), Some(2), "{name} {flag}: {said}");
                assert!(said.contains("from ") && said.contains(&flag), "{said}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn the_real_worker_speaks_the_same_language() {
    let args = words("bench shm --monitor off --locks posix,futex --threads 2 --rounds 1");
    let output = run([&args[..], &["--seconds", "0.05", "--warmup", "0", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&stdout(&output));
    for result in report["results"].as_array().unwrap() {
        assert!(
            result["measures"]["throughput_ops_per_ms"]["median"]
                .as_f64()
                .unwrap()
                > 0.0,
            "{result}"
        );
    }
}

#[test]
fn operations_are_shown_by_nice_level() {
    let dir = tempfile::tempdir().unwrap();
    let args = "bench shm --monitor off --locks posix,futex --threads 2 --rounds 1 --seconds 0.05 --warmup 0 --nice 0,5";
    let plots = ["--plots", dir.path().to_str().unwrap()];
    let arguments: Vec<&str> = args.split(' ').collect();
    let table = run([&arguments[..], &plots].concat());
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    for level in ["0", "5"] {
        let column = format!("share at nice {level}");
        assert!(stdout(&table).contains(&column), "{}", stdout(&table));
    }
    let drawn = std::fs::read_to_string(dir.path().join("shares.svg")).unwrap();
    assert!(drawn.contains("nice 0 (by weight 0.75)"), "{drawn}");

    let report = json(&stdout(&run([&arguments[..], &["--json"]].concat())));
    for result in report["results"].as_array().unwrap() {
        let share = |level: &str| {
            result["measures"][format!("share_nice_{level}")]["median"]
                .as_f64()
                .unwrap()
        };
        assert!((share("0") + share("5") - 1.0).abs() < 1e-9, "{result}");
    }
}
