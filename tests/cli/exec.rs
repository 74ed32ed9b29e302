// SPDX-License-Identifier: MIT
//! `flexguard bench exec`: programs under several locks, and the presets.

use crate::common::*;

#[test]
fn exec_compares_a_program_under_each_lock() {
    let args = words("bench exec --monitor off --locks posix,mcs --rounds 3 --json");
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
    assert_eq!(report["workload"], "exec");
    assert_eq!(report["results"][1]["subject"], "mcs");
    assert_eq!(report["results"][1]["measures"]["score"]["median"], 20.0);
    assert_eq!(report["results"][1]["rounds"].as_array().unwrap().len(), 3);
    assert!(
        report["results"][0]["measures"]["elapsed_seconds"]["median"]
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
    let titles = ["lock", "time s", "ratio", "CPU s"];
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
    let output = run(words(
        "bench exec --monitor off --locks posix -- /no/such/program",
    ));
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    let output = run(words(
        "bench exec --monitor off --locks posix --score x true",
    ));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
}

#[test]
fn exec_gives_up_on_a_program_that_hangs() {
    let output = run(words(
        "bench exec --monitor off --locks posix --timeout 0.2 -- sleep 1000",
    ));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("killed after 0.2 s"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_combination_of_threads_and_hogs_is_a_point() {
    let options = words("--threads 2,3 --hogs 0,1 --rounds 1 --json");
    let score = ["--score", "score ([0-9]+)", "--", "echo", "score {threads}"];
    let of = ["bench", "exec", "--monitor", "off", "--locks", "posix"];
    let output = run([&of[..], &options, &score].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&stdout(&output));
    let points: Vec<(String, f64)> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            let score = r["measures"]["score"]["median"].as_f64().unwrap();
            (r["point"].to_string(), score)
        })
        .collect();
    let expected = [(2, 0), (2, 1), (3, 0), (3, 1)].map(|(threads, hogs)| {
        let point = format!(r#"{{"hogs":{hogs},"threads":{threads}}}"#);
        (point, f64::from(threads))
    });
    assert_eq!(points, expected);

    let refused = run([&of[..], &["--threads", "2", "--", "true"]].concat());
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        stderr(&refused).contains("{threads}"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_preset_says_what_is_not_installed() {
    let empty = tempfile::tempdir().unwrap();
    for (preset, package) in [
        ("rocksdb", "rocksdb-tools"),
        ("kyoto", "kyotocabinet-utils"),
        ("sysbench-mutex", "sysbench"),
        ("sysbench-threads", "sysbench"),
        ("memcached", "memcached"),
    ] {
        let mut command = flexguard();
        command.args(["bench", "exec", "--monitor", "off", "--preset", preset]);
        let output = command.env("PATH", empty.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(&format!("apt install {package}")),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn every_preset_runs() {
    for preset in words("rocksdb kyoto sysbench-mutex sysbench-threads memcached") {
        let output = run([
            "bench",
            "exec",
            "--monitor",
            "off",
            "--preset",
            preset,
            "--scale",
            "0.01",
            "--threads",
            "2",
            "--rounds",
            "1",
            "--json",
        ]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{preset}: {}",
            stderr(&output)
        );
        let result = json(&stdout(&output));
        let primary = result["primary"].as_str().unwrap();
        for entry in result["results"].as_array().unwrap() {
            assert!(
                entry["measures"][primary]["median"].as_f64().unwrap() > 0.0,
                "{preset}: {entry}"
            );
        }
    }
}
