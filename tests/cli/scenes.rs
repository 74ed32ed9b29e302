// SPDX-License-Identifier: MIT
//! `flexguard bench scenes`: what is measured, as data; rounds in which the CPUs were moved; claims.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::fake::Fake;
use crate::common::*;

/// The scenes of the source tree, which are installed.
fn shipped() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenes");
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    files.collect()
}

#[test]
fn every_shipped_scene_can_be_measured_here() {
    let files = shipped();
    assert!(files.len() >= 4);
    for file in files {
        // Not what guest kernels this machine has, which may be of other sources.
        let mut command = flexguard();
        command.args(["bench", "scenes", file.to_str().unwrap(), "--plan"]);
        let output = command
            .env("FLEXGUARD_KERNELS", "/nonexistent")
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}: {}",
            file.display(),
            stderr(&output)
        );
        assert!(
            stdout(&output).contains("in all about"),
            "{}",
            stdout(&output)
        );
    }
}

const SCENES: &str = r#"version = 1
title = "two locks"

[[scene]]
name = "pair"
workload = "shm"
locks = ["posix", "a"]
threads = [1, 2]
seconds = 0.01
rounds = 7

[[scene.subject]]
name = "a, tuned"
lock = "a"
environment = { FG_SETTING = "sleep_us=7" }

[[claim]]
locks = ["a"]
statement = "hash-first"
says = "is twice as good"
scene = "pair"
measure = "throughput_ops_per_ms"
at = { threads = 2 }
least = 2
of = { lock = "posix" }

[[claim]]
locks = ["a"]
says = "is ten times as good"
scene = "pair"
measure = "throughput_ops_per_ms"
at = { threads = 2 }
least = 10
of = { lock = "posix" }
"#;

/// `a` is three times posix; what FG_SETTING says goes to $dir/tune.
const WORKER: &str =
    "echo \"$lock $FG_SETTING\" >>$dir/tune\ncase $lock in a) result 300;; *) result 100;; esac";

fn scenes(fake: &Fake, text: &str, more: &[&str]) -> Output {
    let file = fake.path().join("s.toml");
    fs::write(&file, text).unwrap();
    let out = fake.path().join("out");
    let args = format!("scenes {} -o {}", file.display(), out.display());
    let args = words(&args);
    fake.bench(&[&args[..], more].concat()).output().unwrap()
}

#[test]
fn subjects_have_their_environment_and_claims_their_verdicts() {
    let fake = Fake::new(WORKER);
    let output = scenes(&fake, SCENES, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let tunes = fs::read_to_string(fake.path().join("tune")).unwrap();
    let tuned = tunes.lines().filter(|l| *l == "a sleep_us=7").count();
    let plain = tunes.lines().filter(|l| l.trim() == "a").count();
    assert_eq!((tuned, plain), (14, 14));
    let out = fake.path().join("out");
    let claims = json(&fs::read_to_string(out.join("claims.json")).unwrap());
    assert_eq!(claims[0]["verdict"], "holds");
    assert_eq!(claims[1]["verdict"], "does not hold");
    let place = "section 5.2, Fig. 3a, c";
    let printed = "the highest at almost all thread counts";
    let table = fs::read_to_string(out.join("claims.md")).unwrap();
    assert!(
        table.contains(&format!(
            "| a | {place} | is twice as good |  | {printed} | 300 "
        )),
        "{table}"
    );
    assert!(
        table.contains("| a |  | is ten times as good |  |  | 300 "),
        "{table}"
    );
    let quote = "FlexGuard achieves the highest throughput across almost all thread counts";
    for (key, value) in [("place", place), ("published", printed), ("quote", quote)] {
        assert_eq!(claims[0][key], value);
    }
    let told = format!("a: is twice as good ({place}: {printed}): holds: ");
    assert!(stdout(&output).contains(&told), "{}", stdout(&output));
    let said = format!("- {place}: \"{quote}\"");
    assert!(table.contains(&said), "{table}");
    assert!(out.join("report.html").is_file());
    let result = json(&fs::read_to_string(out.join("pair.json")).unwrap());
    assert_eq!(result["verdicts"][1]["leader"], "a");
    for entry in result["results"].as_array().unwrap() {
        for round in entry["rounds"].as_array().unwrap() {
            for key in ["commit", "dirty", "build", "machine", "kernel"] {
                assert!(round["origin"].get(key).is_some(), "{key}");
            }
        }
    }
}

/// Makes the installation a working tree of this project, and commits `text` in it.
fn commit(fake: &Fake, text: &str) {
    fs::create_dir_all(fake.path().join("abi")).unwrap();
    fs::write(fake.path().join("abi/flexguard_abi.h"), text).unwrap();
    let name = ["-c", "user.name=n", "-c", "user.email=n@example.org"];
    for args in [
        &["init", "-q"][..],
        &["add", "abi"],
        &["commit", "-q", "-m", text],
    ] {
        let mut git = Command::new("git");
        git.arg("-C").arg(fake.path()).args(name).args(args);
        assert!(git.status().unwrap().success(), "{args:?}");
    }
}

#[test]
fn results_of_no_commit_and_of_several_are_told() {
    let fake = Fake::new(WORKER);
    let told = |more: &[&str]| {
        let output = scenes(&fake, SCENES, more);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stderr(&output);
        let uncommitted = text.contains("results of an uncommitted build: ");
        let mixed = text.contains("-dirty (pair)") && text.contains("measure all with --fresh");
        assert_eq!(
            mixed,
            text.contains("results of other commits than this build's"),
            "{text}"
        );
        (uncommitted, mixed)
    };
    commit(&fake, "one");
    assert_eq!(told(&[]), (false, false));
    fs::write(fake.path().join("abi/flexguard_abi.h"), "changed").unwrap();
    assert_eq!(told(&["--fresh"]), (true, false));
    // The locks are the same to the byte, so the results are continued.
    commit(&fake, "two");
    assert_eq!(told(&[]), (false, true));
    assert_eq!(told(&["--fresh"]), (false, false));
}

/// A program in place of fg-handover: the CPUs are near, but from call `from` to call `to`.
fn far_from(fake: &Fake, from: u32, to: u32) {
    let path = fake.path().join("libexec/flexguard/fg-handover");
    let dir = fake.path().display();
    let script = format!(
        "#!/bin/sh\necho >>{dir}/asked\nn=$(wc -l <{dir}/asked)\n\
         if [ $n -ge {from} ] && [ $n -le {to} ]; then echo 250.5; else echo 50.5; fi\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_round_in_which_the_cpus_were_moved_is_measured_again() {
    let fake = Fake::new(WORKER);
    // Each distance is asked for three times: far after the first round, and so until the second begins.
    far_from(&fake, 4, 9);
    let output = scenes(&fake, SCENES, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&fs::read_to_string(fake.path().join("out/pair.json")).unwrap());
    assert_eq!(result["moved_rounds"], 2);
    for entry in result["results"].as_array().unwrap() {
        let rounds = entry["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 7);
        for round in rounds {
            assert_eq!(round["distance"]["before_ns"], 50.5);
            assert_eq!(round["distance"]["after_ns"], 50.5);
        }
    }
}

#[test]
fn making_up_for_moved_rounds_has_an_end() {
    let fake = Fake::new(WORKER);
    // Near before every round, far after it.
    let path = fake.path().join("libexec/flexguard/fg-handover");
    let dir = fake.path().display();
    let script = format!(
        "#!/bin/sh\necho >>{dir}/asked\nn=$(wc -l <{dir}/asked)\nif [ $(((n - 1) % 6)) -ge 3 ]; then echo 250; else echo 50; fi\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let output = scenes(&fake, SCENES, &["--rounds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&fs::read_to_string(fake.path().join("out/pair.json")).unwrap());
    // Two points, each thrown away three times; the fourth try is kept, with what it says of the distance.
    assert_eq!(result["moved_rounds"], 6);
    for entry in result["results"].as_array().unwrap() {
        let rounds = entry["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 1);
        assert_eq!(rounds[0]["distance"]["before_ns"], 50.0);
        assert_eq!(rounds[0]["distance"]["after_ns"], 250.0);
    }
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_line() {
    let fake = Fake::new(WORKER);
    for (from, to, line, expected) in [
        ("threads = [1, 2]", "threads = 0", 8, "from 1 to 4096"),
        ("workload = \"shm\"", "workload = \"dance\"", 6, "hashtable"),
        ("least = 2\n", "least = 2\nmost = 3\n", 17, "least or most"),
        (
            "scene = \"pair\"",
            "scene = \"none\"",
            17,
            "scenes here: pair",
        ),
        ("rounds = 7", "colour = 7", 10, "unknown field"),
    ] {
        let output = scenes(&fake, &SCENES.replacen(from, to, 1), &["--plan"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{to}");
        assert!(
            text.contains(&format!("s.toml:{line}: ")) && text.contains(expected),
            "{to}: {text}"
        );
    }
    assert!(!fake.has_run());
}

#[test]
fn unknown_scenes_and_places_that_cannot_be_written_are_refused() {
    let fake = Fake::new(WORKER);
    let output = fake.bench(&["scenes", "nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("no scenes called 'nonsense'"),
        "{}",
        stderr(&output)
    );
    let file = fake.path().join("t.toml");
    fs::write(&file, SCENES).unwrap();
    let args = ["scenes", file.to_str().unwrap(), "-o", "/proc/no/such"];
    let output = fake.bench(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("cannot write into /proc/no/such"),
        "{}",
        stderr(&output)
    );
    assert!(!fake.has_run());
}

/// Scenes that are measured one by one end with the claims of all of them.
#[test]
fn the_claims_of_scenes_measured_before_are_judged_too() {
    let fake = Fake::new(WORKER);
    let (head, both) = SCENES.split_once("[[scene]]").unwrap();
    let (scene, claims) = both.split_at(both.find("[[claim]]").unwrap());
    let other = |text: &str| text.replace("\"pair\"", "\"other\"");
    let text = format!(
        "{head}[[scene]]{scene}[[scene]]{}{claims}{}",
        other(scene),
        other(claims)
    );
    for (only, judged) in [("pair", 2), ("other", 4), ("pair", 4)] {
        let output = scenes(&fake, &text, &["--only", only]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let claims = fs::read_to_string(fake.path().join("out/claims.json")).unwrap();
        let claims = json(&claims);
        let verdicts: Vec<&str> = claims
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["verdict"].as_str().unwrap())
            .collect();
        assert_eq!(verdicts, ["holds", "does not hold"].repeat(judged / 2));
    }
}

/// It is there, so it is not "no experiment"; the reason says what is missing.
#[test]
fn a_scene_that_is_asked_for_and_cannot_be_measured_says_why() {
    let fake = Fake::new(WORKER);
    let none = fake.path().join("none");
    for (what, reason) in [
        ("program = [\"no-such-program\"]", "is not installed"),
        ("guests = \"hackbench\"", "kernels are not built"),
    ] {
        let scene = format!("\n[[scene]]\nname = \"absent\"\n{what}\nlocks = [\"posix\"]\n");
        let file = fake.path().join("s.toml");
        fs::write(&file, format!("{SCENES}{scene}")).unwrap();
        let args = ["scenes", file.to_str().unwrap(), "--only", "absent"];
        let mut command = fake.bench(&args);
        let output = command.env("FLEXGUARD_KERNELS", &none).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(
            text.contains("'absent' cannot be measured here") && text.contains(reason),
            "{text}"
        );
    }
    assert!(!fake.has_run());
}

#[test]
fn a_result_of_another_version_is_refused_and_stays() {
    let fake = Fake::new(WORKER);
    assert_eq!(scenes(&fake, SCENES, &[]).status.code(), Some(0));
    let path = fake.path().join("out/pair.json");
    let old = fs::read_to_string(&path)
        .unwrap()
        .replace("flexguard-bench/2", "flexguard-bench/1");
    fs::write(&path, &old).unwrap();
    let output = scenes(&fake, SCENES, &[]);
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    assert!(
        text.contains("flexguard-bench/1") && text.contains("flexguard-bench/2"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
}
