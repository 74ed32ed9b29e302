// SPDX-License-Identifier: MIT
//! `flexguard run`: the program's own exit, output and environment; and what is said when it cannot start.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use crate::common::*;

/// The command execs the program in one of these, and stays to wait for it in the other.
const BOTH_WAYS: [&[&str]; 2] = [
    &["--monitor", "off"],
    &["--monitor", "off", "--stats-file", "/dev/null"],
];

#[test]
fn exit_status_is_the_programs() {
    for way in BOTH_WAYS {
        for code in [0, 1, 3, 125, 255] {
            assert_eq!(
                sh(way, &format!("exit {code}")).status.code(),
                Some(code),
                "{way:?}"
            );
        }
    }
}

#[test]
fn the_program_s_signal_ends_the_command_too() {
    for way in BOTH_WAYS {
        for signal in [
            libc::SIGTERM,
            libc::SIGSEGV,
            libc::SIGABRT,
            libc::SIGKILL,
            libc::SIGPIPE,
            libc::SIGUSR1,
            libc::SIGRTMIN(),
        ] {
            let output = sh(way, &format!("kill -{signal} $$"));
            assert_eq!(output.status.signal(), Some(signal), "{way:?}");
        }
    }
}

#[test]
fn only_the_program_may_dump_core() {
    let dir = tempfile::tempdir().unwrap();
    // The command may dump, as far as anybody here may; the program gives it up for itself.
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        "ulimit -c $(ulimit -H -c); exec \"$@\"",
        "sh",
        FLEXGUARD,
        "run",
    ]);
    clean(&mut command);
    command
        .args(BOTH_WAYS[1])
        .args(["--", "sh", "-c", "ulimit -c 0; kill -SEGV $$"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(!output.status.core_dumped());
}

#[test]
fn what_cannot_start_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let not_executable = dir.path().join("data");
    fs::write(&not_executable, "data").unwrap();
    let cases = [
        (vec!["/no/such/program"], 127, "no such program"),
        (vec!["no-such-program-anywhere"], 127, "in PATH"),
        (
            vec![not_executable.to_str().unwrap()],
            126,
            "cannot execute",
        ),
        (vec!["/"], 126, "cannot execute"),
    ];
    for way in BOTH_WAYS {
        for (program, code, words) in &cases {
            let output = run([&["run"], way, &["--"], program.as_slice()].concat());
            assert_eq!(
                output.status.code(),
                Some(*code),
                "{program:?}: {}",
                stderr(&output)
            );
            assert!(stderr(&output).contains(words), "{}", stderr(&output));
            assert!(
                stderr(&output).lines().count() >= 2,
                "no advice: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn an_unknown_lock_is_refused_with_the_nearest() {
    let output = run(["run", "--lock", "flexgaurd", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("'flexguard'") && stderr(&output).contains("flexguard list"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_usage_is_2() {
    for args in [
        &["run"][..],
        &["run", "--bogus", "true"],
        &["run", "--monitor", "perhaps", "true"],
        &["no-such-command"],
        &[],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn an_incomplete_installation_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let output = flexguard()
        .args(["run", "true"])
        .env("FLEXGUARD_PREFIX", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("LOCKS") && stderr(&output).contains("make"),
        "{}",
        stderr(&output)
    );

    fs::create_dir_all(dir.path().join("share/flexguard")).unwrap();
    fs::write(
        dir.path().join("share/flexguard/LOCKS"),
        "mine\tspin\ta lock\n",
    )
    .unwrap();
    let output = flexguard()
        .args(["run", "--lock", "mine", "true"])
        .env("FLEXGUARD_PREFIX", dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("mine.so"), "{}", stderr(&output));
}

#[test]
fn a_prefix_that_the_loader_would_split_is_refused() {
    let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
    std::os::unix::fs::symlink(prefix(), dir.path().join("p")).unwrap();
    let output = flexguard()
        .args(["run", "true"])
        .env("FLEXGUARD_PREFIX", dir.path().join("p"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("LD_PRELOAD") && stderr(&output).contains("symbolic link"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_lock_goes_in_front_of_what_is_preloaded() {
    let lock = prefix().join("lib/flexguard/for/$LIB/mcs.so");
    let other = prefix().join("lib/flexguard/futex.so");
    for way in BOTH_WAYS {
        let args = [
            &["run", "--lock", "mcs"],
            way,
            &["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""],
        ]
        .concat();
        let output = flexguard()
            .args(&args)
            .env("LD_PRELOAD", &other)
            .output()
            .unwrap();
        assert_eq!(
            stdout(&output),
            format!("{}:{}", lock.display(), other.display())
        );
        assert_eq!(stdout(&run(&args)), lock.display().to_string());
    }
}

#[test]
fn posix_preloads_nothing() {
    for way in BOTH_WAYS {
        let output = sh(
            &[&["--lock", "posix"], way].concat(),
            "echo \"${LD_PRELOAD-unset}\"",
        );
        assert_eq!(stdout(&output), "unset\n");
    }
}

/// glibc's locks publish nothing that a monitor could see.
#[test]
fn under_posix_no_monitor_is_loaded() {
    let mut command = flexguard();
    command.env("FLEXGUARD_SOCKET", "/nonexistent/monitor.sock");
    command.args(words("run --lock posix --stats=json true"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = json(&stderr(&output));
    let monitor = summary["monitor"].as_str().unwrap();
    assert!(
        monitor.contains("glibc's locks do not publish"),
        "{monitor}"
    );
    assert!(summary["switches"].is_null());
}

/// The program runs before its monitor is loaded: it stays until that serves, and the summary says how late it was.
#[test]
fn the_program_does_not_wait_for_its_monitor() {
    if !bpf("the_program_does_not_wait_for_its_monitor") {
        return;
    }
    let mut command = flexguard();
    command.env("FLEXGUARD_SOCKET", "/nonexistent/monitor.sock");
    command.args(["run", "--stats=json", "--", "sh", "-c"]);
    command.arg(format!(
        "until {FLEXGUARD} monitor --status --socket $FLEXGUARD_SOCKET >/dev/null; do :; done"
    ));
    let begun = Instant::now();
    let output = command.output().unwrap();
    let whole = begun.elapsed().as_secs_f64(); // the program's own time begins later: when it is started
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = json(&stderr(&output));
    assert_eq!(summary["monitor"], "active");
    let after = summary["watched-after-seconds"].as_f64().unwrap();
    assert!(
        after > 0.0 && after <= whole,
        "{after} of {whole}: {summary}"
    );
    assert!(summary["switches"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn without_a_monitor_the_locks_are_told_to_look_for_none() {
    for way in BOTH_WAYS {
        assert_eq!(
            stdout(&sh(way, "echo \"[${FLEXGUARD_SOCKET-unset}]\"")),
            "[]\n"
        );
    }
}

#[test]
fn no_descriptor_of_ours_reaches_the_program() {
    // A registration that takes longer than the program waits for it has a descriptor of its own, unless it is given up.
    let list = ["env", "FLEXGUARD_RECONNECT=0", "ls", "/proc/self/fd"];
    let directly = std::process::Command::new("ls")
        .arg(list[3])
        .output()
        .unwrap();
    for monitor in ["off", "auto"] {
        let output = run([
            &[
                "run",
                "--monitor",
                monitor,
                "--stats-file",
                "/dev/null",
                "--",
            ],
            &list[..],
        ]
        .concat());
        assert_eq!(stdout(&output), stdout(&directly), "--monitor {monitor}");
    }
}

#[test]
fn output_passes_untouched() {
    let bytes: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bytes");
    fs::write(&file, &bytes).unwrap();
    for way in BOTH_WAYS {
        let output = run([&["run"], way, &["--", "cat", file.to_str().unwrap()]].concat());
        assert!(output.stdout == bytes, "stdout was changed");
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn signals_are_inherited_as_they_were() {
    // SIGPIPE ignored, SIGUSR2 blocked, SIGCHLD ignored: `env` sets the dispositions and the mask before it runs the command.
    for way in BOTH_WAYS {
        let mut command = std::process::Command::new("env");
        command.args([
            "--ignore-signal=PIPE",
            "--ignore-signal=CHLD",
            "--block-signal=USR2",
            FLEXGUARD,
            "run",
        ]);
        clean(&mut command);
        let output = command
            .args(way)
            .args(["--", "grep", "^Sig[BI]", "/proc/self/status"])
            .output()
            .unwrap();
        let status = summary(&stdout(&output).replace('\t', " "));
        let bit = |set: &str, signal: i32| {
            u64::from_str_radix(status[set].trim(), 16).unwrap() >> (signal - 1) & 1
        };
        assert_eq!(bit("SigBlk", libc::SIGUSR2), 1, "{way:?} {status:?}");
        assert_eq!(bit("SigBlk", libc::SIGTERM), 0, "{way:?} {status:?}");
        assert_eq!(bit("SigIgn", libc::SIGPIPE), 1, "{way:?} {status:?}");
        assert_eq!(bit("SigIgn", libc::SIGCHLD), 1, "{way:?} {status:?}");
        let asked = ["^Sig[BI]", "/proc/self/status"];
        let mut directly = std::process::Command::new("grep");
        clean(&mut directly);
        let directly = directly.args(asked).output().unwrap();
        let output = run([&["run"], way, &["--", "grep"], &asked].concat());
        assert_eq!(stdout(&output), stdout(&directly), "{way:?}");
    }
}

const KEYS: &str = "lock monitor preempted-critical-sections preempted-holders preempted-next-waiters
    mode-transitions missed switches registered-processes elapsed-seconds user-seconds system-seconds max-rss-kib
    voluntary-switches involuntary-switches";

#[test]
fn the_summary_has_every_key_once() {
    let output = sh(
        &["--lock", "futex", "--monitor", "off", "--stats"],
        "echo out; exit 7",
    );
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(stdout(&output), "out\n");
    let text = stderr(&output);
    let keys: Vec<&str> = text
        .lines()
        .filter_map(|l| l.split_once(": "))
        .map(|(k, _)| k)
        .collect();
    assert_eq!(keys, words(KEYS), "{text}");
    let summary = summary(&text);
    assert_eq!(summary["lock"], "futex");
    assert_eq!(summary["monitor"], "absent (--monitor off was given)");
    assert_eq!(summary["preempted-critical-sections"], "unknown");
}

#[test]
fn the_summary_for_machines_has_the_same_keys() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.json");
    let output = sh(
        &[
            "--monitor",
            "off",
            "--stats=json",
            "--stats-file",
            file.to_str().unwrap(),
        ],
        "true",
    );
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    let summary = json(&fs::read_to_string(&file).unwrap());
    for key in words(KEYS) {
        assert!(summary.get(key).is_some(), "{key}: {summary}");
    }
    assert_eq!(summary["switches"], serde_json::Value::Null);
    assert!(summary["elapsed-seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_summary_that_cannot_be_kept_stops_the_run_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("ran");
    let output = sh(
        &["--monitor", "off", "--stats-file", "/no/such/dir/s"],
        &format!("touch {}", mark.display()),
    );
    assert_eq!(output.status.code(), Some(125));
    assert!(!mark.exists());
}

#[test]
fn require_without_privilege_says_what_to_do() {
    let output = unprivileged()
        .args(["run", "--monitor", "require", "--", "echo", "ran"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    assert!(
        text.contains("CAP_BPF") && text.contains("flexguard monitor"),
        "{text}"
    );
}

#[test]
fn auto_without_privilege_runs_and_says_so_in_a_line_or_in_the_summary() {
    for quiet in [&[][..], &["-q"]] {
        let output = unprivileged()
            .arg("run")
            .args(quiet)
            .args(["--", "echo", "ran"])
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(0), "ran\n")
        );
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1 - quiet.len(), "{text}");
        assert_eq!(
            text.contains("no monitor: ") && text.contains("CAP_BPF"),
            quiet.is_empty(),
            "{text}"
        );
    }
    let output = unprivileged()
        .args(["run", "--stats", "--", "echo", "ran"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "ran\n");
    let monitor = &summary(&stderr(&output))["monitor"];
    assert!(
        monitor.starts_with("absent (") && monitor.contains("CAP_BPF"),
        "{monitor}"
    );
}

#[test]
fn the_environment_can_require_a_monitor() {
    let run = |options: &[&str]| {
        let mut command = unprivileged();
        command
            .env("FLEXGUARD_REQUIRE", "1")
            .arg("run")
            .args(options);
        command.args(["--", "echo", "ran"]).output().unwrap()
    };
    assert_eq!(run(&[]).status.code(), Some(125));
    assert_eq!(stdout(&run(&["--monitor", "off"])), "ran\n");
}

#[test]
fn a_kernel_without_btf_is_named() {
    let output = flexguard()
        .args(["run", "--monitor", "require", "true"])
        .env("FLEXGUARD_BTF", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("BTF"), "{}", stderr(&output));
    // It stays until the monitor's socket is gone.
    let stay = "while grep -q \"$FLEXGUARD_SOCKET\" /proc/net/unix; do :; done";
    let output = flexguard()
        .args(["run", "--stats", "--", "sh", "-c", stay])
        .env("FLEXGUARD_BTF", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        summary(&stderr(&output))["monitor"].contains("BTF"),
        "{}",
        stderr(&output)
    );
}

/// fg-bench under `posix` is a program that uses pthread mutexes.
#[test]
fn a_pthread_program_is_seen_by_its_own_monitor() {
    if !bpf("a_pthread_program_is_seen_by_its_own_monitor") {
        return;
    }
    let worker = prefix().join("libexec/flexguard/fg-bench");
    let program = format!(
        "{} shm --lock posix --threads 8 --seconds 0.5",
        worker.display()
    );
    let program = words(&program);
    let output = run([
        &words("run --lock futex --monitor require --stats --")[..],
        &program,
    ]
    .concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = summary(&stderr(&output));
    let count = |key: &str| summary[key].parse::<u64>().unwrap();
    assert_eq!(summary["monitor"], "active");
    assert!(count("registered-processes") >= 1, "{summary:?}");
    assert!(count("switches") > 0, "{summary:?}");
    assert_eq!(
        count("preempted-critical-sections"),
        count("preempted-holders") + count("preempted-next-waiters")
    );
    assert!(!summary.contains_key("note"), "{summary:?}");
}

#[test]
fn a_program_that_registers_nothing_gets_a_note() {
    if !bpf("a_program_that_registers_nothing_gets_a_note") {
        return;
    }
    let output = run(words("run --monitor require --stats -- env -i true"));
    let text = stderr(&output);
    let summary = summary(&text);
    // env itself is preloaded, and may or may not use a lock.
    if summary["registered-processes"] == "0" {
        assert!(summary["note"].contains("statically linked"), "{text}");
    } else {
        assert!(!summary.contains_key("note"), "{text}");
    }
}

/// Where the kernel has no time-slice extension, a lock that lives by it is refused, unless one insists.
#[test]
fn a_lock_that_lacks_what_it_needs_is_refused() {
    let mut probe = std::process::Command::new(prefix().join("libexec/flexguard/fg-probe"));
    let met = probe
        .arg("slice")
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let met = met.output().unwrap().status.success();
    let lock = ["--monitor", "off", "--lock", "tas-slice"];

    let plain = sh(&lock, "echo $GLIBC_TUNABLES");
    if met {
        assert_eq!(stdout(&plain), "glibc.pthread.rseq=0\n");
    } else {
        assert_eq!(plain.status.code(), Some(125));
        let text = stderr(&plain);
        assert!(
            text.contains("time-slice extension") && text.contains("FLEXGUARD_FORCE=1"),
            "{text}"
        );
    }

    let mut forced = flexguard();
    forced.env("FLEXGUARD_FORCE", "1").arg("run").args(lock);
    let forced = forced
        .args(["--", "sh", "-c", "echo $GLIBC_TUNABLES"])
        .output()
        .unwrap();
    assert_eq!(stdout(&forced), "glibc.pthread.rseq=0\n");
}

/// Objects whose layout is not known stay glibc's, which the summary and `doctor` say.
#[test]
fn what_is_left_to_glibc_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("libexec/flexguard");
    std::fs::create_dir_all(&tools).unwrap();
    for part in ["bin", "lib", "share"] {
        std::os::unix::fs::symlink(prefix().join(part), dir.path().join(part)).unwrap();
    }
    let probe = tools.join("fg-probe");
    let says = |text: &str| {
        std::fs::write(&probe, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&probe, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    };
    let run = |args: &[&str]| {
        let mut command = flexguard();
        command.env("FLEXGUARD_PREFIX", dir.path()).args(args);
        command.output().unwrap()
    };
    says("echo barriers, spinlocks; exit 1");
    let told = stderr(&run(&["run", "-m", "off", "--stats", "true"]));
    assert_eq!(
        summary(&told)["left-to-glibc"],
        "barriers, spinlocks",
        "{told}"
    );
    let told = stderr(&run(&[
        "run", "-m", "off", "--lock", "posix", "--stats", "true",
    ]));
    assert!(!told.contains("left-to-glibc"), "{told}");
    assert!(stdout(&run(&["doctor"])).contains("its barriers, spinlocks are not as known"));

    let told = stderr(&sh(&["-m", "off", "--stats"], "true"));
    assert!(!told.contains("left-to-glibc"), "{told}");
    let told = stdout(&flexguard().arg("doctor").output().unwrap());
    assert!(
        told.contains("knows its condition variables (flags at byte"),
        "{told}"
    );
}

const SAYS_HOW_LONG_IT_SPINS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int of_the_runtime(void);
int main(void)
{
	const char *value = getenv("GOMP_SPINCOUNT");
	puts(value ? value : "unset");
	return of_the_runtime();
}
"#;

#[test]
fn presets_are_set_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let program = linked_to_openmp(dir.path(), SAYS_HOW_LONG_IT_SPINS);
    let says = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = flexguard();
        command
            .args(["run", "--monitor", "off"])
            .args(options)
            .arg("--")
            .arg(&program);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert_eq!(says(&["-q"], &[]), ("unset\n".into(), String::new()));
    let (value, said) = says(&["-q", "--presets"], &[]);
    assert_eq!(value, "1000\n");
    assert!(
        said.starts_with("flexguard: sets GOMP_SPINCOUNT=1000 (GNU OpenMP: "),
        "{said}"
    );
    for (variable, value, seen) in [
        ("GOMP_SPINCOUNT", "7", "7\n"),
        ("OMP_WAIT_POLICY", "active", "unset\n"),
    ] {
        let (found, said) = says(&["-q", "--presets"], &[(variable, value)]);
        assert_eq!(found, seen);
        assert!(said.contains("linked to no runtime"), "{said}");
    }
}

#[test]
fn a_program_without_such_a_runtime_has_no_presets() {
    let output = sh(&["--monitor", "off", "-q", "--presets"], "true");
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("linked to no runtime"),
        "{}",
        stderr(&output)
    );
}
