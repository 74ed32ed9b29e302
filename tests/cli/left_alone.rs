// SPDX-License-Identifier: MIT
//! Programs that can have no other lock: they run as without the command, which says so of the one that it was given.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::daemon::{Daemon, Process, wait_for};
use crate::common::*;

const SOURCE: &str = "#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int n;
static void *f(void *a)
{
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&m);
        n++;
        pthread_mutex_unlock(&m);
    }
    return a;
}
int main(void)
{
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], 0, f, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], 0);
    printf(\"%d\\n\", n);
    return fflush(stdout) + getchar() * 0;
}
";

/// No library of C for 32 bits is needed to build it: it says the same, and ends.
const SOURCE_32: &str = "static const char text[] = \"2000\\n\";
static int call(int number, int a, const void *b, int c)
{
    int result;
    __asm__ volatile(\"int $0x80\" : \"=a\"(result) : \"a\"(number), \"b\"(a), \"c\"(b), \"d\"(c) : \"memory\");
    return result;
}
void _start(void)
{
    char byte;
    call(4, 1, text, 5);
    call(3, 0, &byte, 1);
    call(1, 0, 0, 0);
}
";

struct Program {
    _dir: TempDir,
    path: PathBuf,
}

/// None: the compiler, or the library for it, is not here.
fn program(source: &str, compiler: &str, options: &[&str]) -> Option<Program> {
    let dir = tempfile::tempdir().unwrap();
    let (file, path) = (dir.path().join("program.c"), dir.path().join("program"));
    fs::write(&file, source).unwrap();
    // Others execute it, too.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-o"])
        .arg(&path)
        .arg(&file)
        .args(options);
    let built = command.stderr(Stdio::null()).status();
    built
        .is_ok_and(|status| status.success())
        .then_some(Program { _dir: dir, path })
}

impl Program {
    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// As somebody's child it prints what it prints without the command; given to the command, too, which explains
    /// that.
    fn is_left_alone(&self, why: &str) {
        for lock in ["flexguard", "mcs"] {
            let output = sh(
                &["--monitor", "off", "--lock", lock],
                &format!("{}; true", self.path()),
            );
            let (said, status) = (stderr(&output), output.status.code());
            assert_eq!(
                (stdout(&output).as_str(), said.as_str(), status),
                ("2000\n", "", Some(0))
            );
        }
        let named =
            |options: &[&str]| run([&["run", "-m", "off"], options, &["--", self.path()]].concat());
        let (loud, quiet) = (named(&[]), named(&["-q"]));
        for output in [&loud, &quiet] {
            assert_eq!(
                (stdout(output).as_str(), output.status.code()),
                ("2000\n", Some(0))
            );
        }
        let said = stderr(&loud);
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert_eq!(stderr(&quiet), "");
    }
}

#[test]
fn a_static_program() {
    let program = program(SOURCE, "cc", &["-static", "-pthread"]).unwrap();
    program.is_left_alone("linked statically");
}

#[test]
fn a_program_of_musl() {
    match program(SOURCE, "musl-gcc", &["-pthread"]) {
        Some(program) => program.is_left_alone("linked to musl (/lib/ld-musl-"),
        None => skipped(
            "a_program_of_musl",
            "there is no musl-gcc (Debian: musl-tools)",
        ),
    }
}

#[test]
fn a_32_bit_program() {
    const LOADER: &str = "/lib/ld-linux.so.2";
    let options = [
        "-m32",
        "-nostdlib",
        "-fno-stack-protector",
        "-Wl,--dynamic-linker=/lib/ld-linux.so.2",
    ];
    let pie = ["-fPIE", "-pie"]; // with a loader
    let built = program(SOURCE_32, "cc", &[&options[..], &pie].concat());
    match built.filter(|_| Path::new(LOADER).exists()) {
        Some(program) => program.is_left_alone("32-bit"),
        None => skipped(
            "a_32_bit_program",
            "there is no loader of 32-bit programs (Debian: libc6-i386)",
        ),
    }
}

#[test]
fn a_setuid_program() {
    if !as_root() {
        return skipped("a_setuid_program", "only root can make one");
    }
    let program = program(SOURCE, "cc", &["-pthread"]).unwrap();
    chown(&program.path, Some(65534), None).unwrap();
    fs::set_permissions(&program.path, fs::Permissions::from_mode(0o4755)).unwrap();
    program.is_left_alone("setuid");
}

#[test]
fn a_program_of_thread_sanitizer() {
    match program(SOURCE, "gcc", &["-fsanitize=thread", "-pthread"]) {
        Some(program) => program.is_left_alone("ThreadSanitizer"),
        None => skipped("a_program_of_thread_sanitizer", "there is no libtsan"),
    }
}

/// Valgrind starts the program, and that has glibc's locks, too: no race is reported, and the environment has no lock.
#[test]
fn a_program_below_a_checker_of_races() {
    const TEST: &str = "a_program_below_a_checker_of_races";
    let program = program(SOURCE, "cc", &["-g", "-pthread"]).unwrap();
    for tool in ["helgrind", "drd"] {
        let tool_option = format!("--tool={tool}");
        let valgrind = ["valgrind", "-q", "--error-exitcode=9", &tool_option];
        let plain = Command::new(valgrind[0])
            .args(&valgrind[1..])
            .arg("/bin/true")
            .output();
        if !plain.is_ok_and(|output| output.status.success()) {
            return skipped(TEST, "there is no Valgrind");
        }
        let command = [
            &["run", "-m", "off", "--"],
            &valgrind[..],
            &[program.path()],
        ]
        .concat();
        let output = run(command);
        let said = stderr(&output);
        assert_eq!(
            (stdout(&output).as_str(), output.status.code()),
            ("2000\n", Some(0)),
            "{said}"
        );
        assert!(said.contains(tool) && said.lines().count() == 1, "{said}");
    }
}

/// Which is not left alone: it can have the lock.
#[test]
fn a_program_of_address_sanitizer_has_the_lock() {
    let Some(program) = program(SOURCE, "gcc", &["-fsanitize=address", "-pthread"]) else {
        return skipped(
            "a_program_of_address_sanitizer_has_the_lock",
            "there is no libasan",
        );
    };
    let output = run(["run", "-m", "off", "--", program.path()]);
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("2000\n", "")
    );
    let script = format!("{}; true", program.path());
    let output = sh(&["-m", "off"], &script);
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("2000\n", "")
    );
}

/// Each runs until its input ends, below a daemon that knows none of them.
#[test]
fn the_status_counts_them_and_says_why() {
    const TEST: &str = "the_status_counts_them_and_says_why";
    if !bpf(TEST) {
        return;
    }
    let daemon = Daemon::start();
    let kinds: [(&str, &[&str], &str); 2] = [
        ("cc", &["-static", "-pthread"], "linked statically"),
        ("gcc", &["-fsanitize=thread", "-pthread"], "ThreadSanitizer"),
    ];
    for (compiler, options, why) in kinds {
        let Some(program) = program(SOURCE, compiler, options) else {
            skipped(TEST, "there is no libtsan");
            continue;
        };
        let mut command = flexguard();
        command.args(["run", "-q", "--", program.path()]);
        command.env("FLEXGUARD_SOCKET", &daemon.socket);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let running = Process::start(&mut command);
        let pid = running.pid().to_string(); // the command becomes the program
        wait_for("the program among those not watched", || {
            let output = run(["status", "--socket", &daemon.socket]);
            let text = stdout(&output);
            let line = text
                .lines()
                .find(|line| line.split_whitespace().next() == Some(&pid));
            line.is_some_and(|line| line.contains(why) && line.contains("flexguard"))
                .then_some(())
        });
        let output = run(["status", "--json", "--socket", &daemon.socket]);
        let status = json(&stdout(&output));
        let unwatched = status["unwatched_programs"].as_array().unwrap();
        let listed = unwatched
            .iter()
            .find(|p| p["pid"] == running.pid())
            .unwrap();
        assert_eq!(listed["lock"], "flexguard");
        assert!(listed["why"].as_str().unwrap().contains(why), "{listed}");
    }
}

/// The program starts under so many filters, which allow everything, more than this process.
fn under_filters(command: &mut Command, number: usize) {
    let install = move || {
        // BPF_RET | BPF_K with SECCOMP_RET_ALLOW.
        let mut allow = libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0x7fff_0000,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &mut allow,
        };
        for _ in 0..number {
            // SAFETY: both end before this function does.
            let failed = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                    || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
            };
            if failed {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(install) };
}

#[test]
fn filters_are_counted_by_doctor_and_status() {
    let mut command = flexguard();
    command
        .args(["doctor", "--json"])
        .env_remove("FLEXGUARD_FILTERS");
    under_filters(&mut command, 2);
    let report = json(&stdout(&command.output().unwrap()));
    let checks = report["checks"].as_array().unwrap();
    let check = checks
        .iter()
        .find(|check| check["name"] == "seccomp-filters")
        .unwrap();
    assert_eq!(check["state"], "absent", "{check}");
    assert!(
        check["found"]
            .as_str()
            .unwrap()
            .ends_with("FLEXGUARD_FILTERS is not set"),
        "{check}"
    );
    if !bpf("filters_are_counted_by_doctor_and_status") {
        return;
    }
    let daemon = Daemon::start();
    let program = program(SOURCE, "cc", &["-pthread"]).unwrap();
    let mut command = Command::new(&program.path);
    clean(&mut command);
    command.env("LD_PRELOAD", prefix().join("lib/flexguard/flexguard.so"));
    command
        .env("FLEXGUARD_SOCKET", &daemon.socket)
        .env_remove("FLEXGUARD_FILTERS");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    under_filters(&mut command, 2);
    let running = Process::start(&mut command);
    wait_for("the program among those not watched", || {
        let output = run(["status", "--json", "--socket", &daemon.socket]);
        let status = json(&stdout(&output));
        let mut unwatched = status["unwatched_programs"].as_array()?.iter();
        let why = unwatched.find(|p| p["pid"] == running.pid())?["why"].clone();
        why.as_str()?
            .ends_with("seccomp filters, and FLEXGUARD_FILTERS is 1")
            .then_some(())
    });
}
