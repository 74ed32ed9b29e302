// SPDX-License-Identifier: MIT
//! `flexguard advise`. The programs are shell scripts that look at LD_PRELOAD and print a score, so that what is better,
//! and by how much, is known exactly.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::common::daemon::{check_schema, wait_for};
use crate::common::*;

const LOCKS: &str = "flexguard,flexguard-sosp25,futex";

/// The installation without fg-handover: where it finds that the CPUs were moved, rounds are thrown away, and how many
/// are left is chance.
fn still() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for part in ["lib", "share"] {
        symlink(prefix().join(part), dir.path().join(part)).unwrap();
    }
    dir
}

fn advise(options: &[&str], script: &str) -> Output {
    let still = still();
    let mut command = flexguard();
    command
        .env("FLEXGUARD_PREFIX", still.path())
        .args(["advise", "--monitor", "off", "--locks", LOCKS])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command.output().expect("the command starts")
}

/// A script whose score is `others` times 100 unless the preloaded lock is `lock`, then `with` times 100.
fn score(lock: &str, with: u32, others: u32) -> String {
    format!(
        "case $LD_PRELOAD in */{lock}.so*) echo score {with}00;; *) echo score {others}00;; esac"
    )
}

fn advice(options: &[&str], script: &str) -> serde_json::Value {
    let scored = ["--json", "--score", "score ([0-9]+)"];
    let output = advise(&[&scored[..], options].concat(), script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let advice = json(&stdout(&output));
    check_schema("advise", std::slice::from_ref(&advice));
    advice
}

#[test]
fn a_lock_that_helps_is_recommended_with_the_factor() {
    let advice = advice(&[], &score("flexguard-sosp25", 3, 2));
    assert_eq!(advice["outcome"], "helps");
    assert_eq!(advice["recommended"], "flexguard-sosp25");
    let ratio = &advice["locks"][1]["ratio"];
    assert!((ratio["estimate"].as_f64().unwrap() - 1.5).abs() < 1e-9);
    assert_eq!(ratio["rounds"], 8);
    assert_eq!(advice["locks"][0]["verdict"], "alike");
    assert!(advice["elapsed_seconds"].as_f64().unwrap() > 0.0);
    assert!(advice["others_cpus"].is_number());
}

#[test]
fn a_lock_that_harms_is_not_recommended() {
    let advice = advice(&[], &score("flexguard", 1, 2));
    assert_eq!(advice["outcome"], "hurts");
    assert!(advice["recommended"].is_null());
    assert_eq!(advice["locks"][0]["verdict"], "worse");
}

/// What helps, but is no lock of FlexGuard's, is shown, and is no reason to use FlexGuard.
#[test]
fn equal_programs_make_no_difference() {
    for script in ["echo score 100", &score("futex", 3, 2)] {
        let advice = advice(&[], script);
        assert_eq!(advice["outcome"], "no-difference");
        assert!(advice["recommended"].is_null());
    }
    let output = advise(&["--score", "score ([0-9]+)"], "echo score 100");
    let text = stdout(&output);
    assert!(
        text.contains(
            "FlexGuard makes no difference to this program: with flexguard it is less than 10 %"
        ),
        "{text}"
    );
    assert!(!text.contains("Use it"), "{text}");
}

#[test]
fn three_rounds_are_too_few_and_it_says_what_to_do() {
    let three = ["--rounds", "3"];
    let advice = advice(&three, &score("flexguard", 9, 1));
    assert_eq!(advice["outcome"], "too-few-rounds");
    assert!(advice["recommended"].is_null());
    let to_do = advice["to_do"].as_str().unwrap();
    assert!(to_do.contains("8 rounds or more: give --budget"), "{to_do}");
}

/// Half of the rounds are three times as good, and half a third.
#[test]
fn what_the_rounds_cannot_tell_is_said_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let script = format!(
        "case $LD_PRELOAD in */flexguard.so*) echo run >>{0}; [ $(($(wc -l <{0}) % 2)) = 1 ] && echo score 300 || \
         echo score 33;; *) echo score 100;; esac",
        count.display()
    );
    let advice = advice(&["--rounds", "12", "--locks", "flexguard"], &script);
    assert_eq!(advice["outcome"], "cannot-tell");
    assert!(advice["recommended"].is_null());
    assert_eq!(advice["locks"][0]["ratio"]["rounds"], 12);
    let to_do = advice["to_do"].as_str().unwrap();
    assert!(
        to_do.contains("--budget") && to_do.contains("--score"),
        "{to_do}"
    );
}

/// Of one round in four the factor is far off: seven rounds would not tell, and some more do.
#[test]
fn rounds_are_added_until_the_answer_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let script = format!(
        "case $LD_PRELOAD in */flexguard.so*) echo run >>{0}; [ $(($(wc -l <{0}) % 4)) = 1 ] && echo score 60 || \
         echo score 200;; *) echo score 100;; esac",
        count.display()
    );
    let advice = advice(&["--budget", "20", "--locks", "flexguard"], &script);
    assert_eq!(advice["outcome"], "helps");
    assert!(
        advice["locks"][0]["ratio"]["rounds"].as_u64().unwrap() > 8,
        "{advice}"
    );
}

#[test]
fn the_advice_is_in_plain_words() {
    let output = advise(&["--score", "score ([0-9]+)"], &score("flexguard", 3, 2));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("the first round took"), "{said}");
    assert!(said.contains("flexguard: 8 rounds, "), "{said}");
    let text = stdout(&output);
    for words in [
        "FlexGuard helps this program: with flexguard it is 1.50× the score of glibc's locks",
        "(99 % interval 1.50× to 1.50×, 8 rounds in ",
        "against glibc's",
        "the monitor is absent",
        "CPU time of a run",
        "The profiler saw no lock being used",
        "Use it: flexguard run --lock flexguard -- sh -c",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Its holder sleeps, so the other thread waits on every machine.
#[test]
fn the_profile_is_among_the_reasons() {
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let script = format!(
        "exec {} shm --lock posix --threads 2 --seconds 0.2 --hold-sleep-us 1000",
        worker.display()
    );
    let output = advise(&["--rounds", "1"], &script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("mutexes were locked"), "{text}");
    assert!(text.contains("% of the waiting; it is held for"), "{text}");
}

#[test]
fn time_is_compared_without_a_score() {
    let output = advise(&["--json", "--rounds", "1"], "echo secret");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let advice = json(&stdout(&output));
    check_schema("advise", std::slice::from_ref(&advice));
    assert_eq!(advice["measure"], "elapsed_seconds");
    assert!(advice["glibc"]["elapsed_seconds"].as_f64().unwrap() > 0.0);
    assert!(!stdout(&output).contains("secret\n"));
}

/// With the best score, but it failed: it is neither judged nor recommended. 77 is no special status here.
#[test]
fn a_program_that_fails_is_shown_with_its_lock() {
    for status in ["3", "77"] {
        let script = format!(
            "echo score 1; case $LD_PRELOAD in */flexguard.so*) echo why; exit {status};; esac"
        );
        let output = advise(&["--json", "--score", "score ([0-9]+)"], &script);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let wanted = format!("flexguard: exit status {status}");
        assert!(said.contains(&wanted) && said.contains("why"), "{said}");
        let advice = json(&stdout(&output));
        check_schema("advise", std::slice::from_ref(&advice));
        assert_eq!(advice["failures"][0]["lock"], "flexguard");
        assert!(advice["locks"][0]["ratio"].is_null());
        assert_eq!(advice["outcome"], "no-difference");
        assert_eq!(advice["complete"], false);
    }
    let output = advise(&[], "exit 3");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("Nothing can be said"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn locks_of_which_none_is_flexguards_are_refused() {
    for locks in ["posix", "futex,tatas"] {
        let output = run(["advise", "--monitor", "off", "--locks", locks, "--", "true"]);
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(said.contains("it names none of these"), "{said}");
    }
}

/// The fastest lock is not FlexGuard's: it says why it recommends another one.
#[test]
fn a_faster_lock_that_is_not_recommended_is_explained() {
    let script = "case $LD_PRELOAD in */futex.so*) echo score 500;; */flexguard.so*) echo score 200;; \
                  *) echo score 100;; esac";
    let advice = advice(&[], script);
    assert_eq!(advice["recommended"], "flexguard");
    let reasons = advice["reasons"].to_string();
    assert!(
        reasons.contains("futex was faster in these runs (5.00×)"),
        "{reasons}"
    );
}

#[test]
fn what_cannot_run_is_refused() {
    let of = |program: &[&str]| {
        let output = run([&["advise", "--monitor", "off", "--"], program].concat());
        (output.status.code(), stderr(&output))
    };
    assert_eq!(of(&[]).0, Some(2));
    assert_eq!(of(&["/no/such/program"]).0, Some(127));
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    // An ELF header, a program header of the type PT_INTERP, and the name of musl's loader.
    let name = b"/lib/ld-musl-x86_64.so.1\0";
    let mut file = vec![0; 120];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    for (at, byte) in [(32, 64), (54, 56), (56, 1), (64, 3), (72, 120)] {
        file[at] = byte;
    }
    file[64 + 32] = name.len() as u8;
    file.extend(name);
    fs::write(&program, file).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = of(&[program.to_str().unwrap()]);
    assert_eq!(code, Some(126), "{said}");
    assert!(said.contains("linked to musl"), "{said}");
}

/// The program counts its runs, and its ninth waits until it is killed: two rounds of four runs are finished then.
fn interrupted(json: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let script = format!(
        "echo run >>{0}; [ $(wc -l <{0}) -le 8 ] || exec sleep 1000; echo score 100",
        count.display()
    );
    let still = still();
    let mut command = flexguard();
    command
        .env("FLEXGUARD_PREFIX", still.path())
        .args(["advise", "--monitor", "off"])
        .args(json.then_some("--json"))
        .args(["--locks", LOCKS, "--score", "score ([0-9]+)", "--"])
        .args(["sh", "-c", &script])
        .stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for("the ninth run", || {
        let runs = fs::read_to_string(&count).unwrap_or_default();
        (runs.lines().count() == 9).then_some(())
    });
    kill(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    stdout(&output)
}

#[test]
fn an_interrupt_keeps_the_finished_rounds() {
    let advice = json(&interrupted(true));
    check_schema("advise", std::slice::from_ref(&advice));
    assert_eq!(advice["outcome"], "too-few-rounds");
    assert_eq!(advice["complete"], false);
    for lock in advice["locks"].as_array().unwrap() {
        assert_eq!(lock["ratio"]["rounds"], 2, "{lock}");
    }
    let text = interrupted(false);
    assert!(
        text.contains("Too few rounds to say whether FlexGuard helps: 2 in "),
        "{text}"
    );
    assert!(!text.contains("0 % interval"), "{text}");
}

#[test]
fn the_monitors_counters_are_among_the_reasons() {
    if !bpf("the_monitors_counters_are_among_the_reasons") {
        return;
    }
    let output = run(words("advise --rounds 1 --json --locks flexguard true"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let advice = json(&stdout(&output));
    check_schema("advise", std::slice::from_ref(&advice));
    let counters = &advice["locks"][0]["counters"];
    assert!(counters["preempted_critical_sections"].is_number());
    assert!(counters["registered_processes"].is_number());
}

/// Twice as good with few spins, and three times with none, whatever the lock.
const SPINS_IN_VAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int of_the_runtime(void);
int main(void)
{
	puts(getenv("OMP_WAIT_POLICY") ? "score 300" : getenv("GOMP_SPINCOUNT") ? "score 200" : "score 100");
	return of_the_runtime();
}
"#;

fn advise_about(program: &Path, variables: &[(&str, &str)], options: &[&str]) -> Output {
    let still = still();
    let mut command = flexguard();
    command
        .env("FLEXGUARD_PREFIX", still.path())
        .env_remove("OMP_WAIT_POLICY")
        .env_remove("GOMP_SPINCOUNT")
        .args(["advise", "--monitor", "off", "--score", "score ([0-9]+)"])
        .args(["--locks", "flexguard"])
        .args(options)
        .arg("--")
        .arg(program)
        .envs(variables.iter().copied());
    command.output().expect("the command starts")
}

/// They are candidates in the rounds of the locks. What is suggested is not set: glibc's runs are without it.
#[test]
fn variables_of_the_runtime_are_tried_and_the_best_is_suggested() {
    let dir = tempfile::tempdir().unwrap();
    let program = linked_to_openmp(dir.path(), SPINS_IN_VAIN);
    let output = advise_about(&program, &[], &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let advice = json(&stdout(&output));
    check_schema("advise", std::slice::from_ref(&advice));
    assert_eq!(advice["outcome"], "no-difference");
    assert_eq!(advice["suggested"], "OMP_WAIT_POLICY=passive");
    assert_eq!(advice["glibc"]["score"], 100.0);
    assert_eq!(advice["locks"].as_array().unwrap().len(), 1);
    let found = |at: usize| {
        let tried = &advice["settings"][at];
        (
            tried["setting"].as_str().unwrap(),
            tried["verdict"].as_str().unwrap(),
            tried["ratio"]["estimate"].as_f64().unwrap().round(),
        )
    };
    assert_eq!(found(0), ("GOMP_SPINCOUNT=1000", "better", 2.0));
    assert_eq!(found(1), ("OMP_WAIT_POLICY=passive", "better", 3.0));
    let text = stdout(&advise_about(&program, &[], &[]));
    for words in [
        "locks, settings",
        "Set OMP_WAIT_POLICY=passive: with it, under glibc's locks, it is 3.00× the score (99 % interval",
        "since under GNU OpenMP a thread that waits sleeps at once",
        &format!(
            "Nothing is set unasked: OMP_WAIT_POLICY=passive {}",
            program.display()
        ),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_variable_that_the_user_has_set_is_kept_and_not_tried() {
    let dir = tempfile::tempdir().unwrap();
    let program = linked_to_openmp(dir.path(), SPINS_IN_VAIN);
    let active = [("OMP_WAIT_POLICY", "active")];
    let output = advise_about(&program, &active, &["--json"]);
    let advice = json(&stdout(&output));
    assert_eq!(advice["settings"], serde_json::json!([]));
    assert!(advice["suggested"].is_null());
    assert_eq!(advice["glibc"]["score"], 300.0);
}

/// A setting that gains nothing is in the table, and is not suggested.
#[test]
fn a_variable_that_gains_nothing_is_not_suggested() {
    let dir = tempfile::tempdir().unwrap();
    let alike = SPINS_IN_VAIN.replace("300", "100").replace("200", "50");
    let program = linked_to_openmp(dir.path(), &alike);
    let text = stdout(&advise_about(&program, &[], &[]));
    assert!(text.contains("GOMP_SPINCOUNT=1000"), "{text}");
    assert!(text.contains("worse than glibc's"), "{text}");
    assert!(
        !text.contains("Set OMP_WAIT_POLICY") && !text.contains("Set GOMP"),
        "{text}"
    );
}
