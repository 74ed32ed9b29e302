// SPDX-License-Identifier: MIT
//! `flexguard doctor`: what works on this machine, what does not, and what to do.

mod libc_facts;

use std::io;

use clap::Args;
use flexguard_launch::child::Status;
use flexguard_launch::failure::Result;
use flexguard_launch::filters::{self, FILTERS_ENV};
use flexguard_launch::locks::{self, POSIX};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;
use flexguard_monitor::{Hook, Probe, SocketName, Stats};
use serde::Serialize;

use super::Subcommand;
use crate::manual::{LOG_ITEM, OWN_EXIT, PREFIX_ITEM, SOCKET_FILES, SOCKET_ITEM, Section};

/// Check what works on this machine, and say what to do about what does not
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print a JSON object with every check
    #[arg(long)]
    json: bool,
}

impl Subcommand for Doctor {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "EXIT STATUS",
            items: &[
                ("0", "The whole system works."),
                (
                    "1",
                    "Something is missing: the locks run without the monitor, or do not run at all.",
                ),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        Section {
            title: "ENVIRONMENT",
            items: &[PREFIX_ITEM, SOCKET_ITEM, LOG_ITEM],
        },
        SOCKET_FILES,
    ];

    fn run(self) -> Result<Status> {
        let checks = examine(&Prefix::find()?);
        let works = checks.iter().all(|c| c.state != State::Missing);
        if self.json {
            output::print_json(&Report {
                schema: "flexguard-doctor/1",
                works,
                checks,
            })?;
        } else {
            output::print(&render(&checks, works))?;
        }
        Ok(Status::Exited(if works { 0 } else { 1 }))
    }
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// What that means for the user; empty where `found` says it all.
    meaning: String,
    /// What to do about it, if anything can be done.
    advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Needed, and not there.
    Missing,
    /// Not needed; something would work better with it.
    Absent,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// The whole system works here.
    works: bool,
    checks: Vec<Check>,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            name,
            state,
            found: found.into(),
            meaning: String::new(),
            advice: None,
        }
    }

    fn means(mut self, meaning: &str) -> Self {
        self.meaning = meaning.into();
        self
    }

    fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

fn examine(prefix: &Prefix) -> Vec<Check> {
    let probe = flexguard_monitor::probe();
    let daemon = daemon();
    // With a daemon nothing has to be loaded here: what loading needs is then only worth knowing.
    let needed = if daemon.state == State::Ok {
        State::Absent
    } else {
        State::Missing
    };
    vec![
        machine(),
        Check::new("kernel", State::Ok, &probe.kernel_release),
        btf(&probe, needed),
        capabilities(&probe, needed),
        lockdown(&probe, needed),
        monitor_program(&probe, needed),
        jit(&probe),
        unprivileged_bpf(),
        seccomp_filters(),
        daemon,
        interposers(prefix),
        glibc(prefix),
        rseq(),
        slice_extension(prefix),
    ]
}

fn machine() -> Check {
    // SAFETY: no pointers are passed.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } / 1024;
    let arch = std::env::consts::ARCH;
    let check = Check::new("machine", State::Ok, format!("{arch}, pages of {page} KiB"));
    match arch {
        "aarch64" => check.means("FlexGuard was tested on arm64 in emulators, and measured nowhere: compare before you rely on it"),
        _ => check,
    }
}

fn btf(probe: &Probe, needed: State) -> Check {
    let path = probe.btf_path.display();
    if probe.btf {
        return Check::new("btf", State::Ok, format!("{path}"));
    }
    Check::new("btf", needed, format!("no {path}"))
        .means("the kernel does not describe its types, so the monitor's program cannot be adapted to it")
        .advice("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian's and Ubuntu's are)")
}

fn capabilities(probe: &Probe, needed: State) -> Check {
    let held = [
        ("CAP_BPF", probe.cap_bpf),
        ("CAP_PERFMON", probe.cap_perfmon),
        ("CAP_SYS_ADMIN", probe.cap_sys_admin),
    ];
    let names: Vec<&str> = held
        .iter()
        .filter(|(_, has)| *has)
        .map(|(name, _)| *name)
        .collect();
    let found = if names.is_empty() {
        "none of CAP_BPF, CAP_PERFMON".into()
    } else {
        names.join(", ")
    };
    if probe.cap_sys_admin || (probe.cap_bpf && probe.cap_perfmon) {
        return Check::new("capabilities", State::Ok, found);
    }
    Check::new("capabilities", needed, found)
        .means("this user cannot load the monitor")
        .advice("have root start `flexguard monitor`, once for the machine; programs then need no privilege")
}

fn lockdown(probe: &Probe, needed: State) -> Check {
    match probe.lockdown.as_deref() {
        Some("confidentiality") => Check::new("lockdown", needed, "confidentiality")
            .means("the kernel forbids BPF programs to read memory")
            .advice("boot with lockdown=integrity, or without lockdown"),
        Some(mode) => Check::new("lockdown", State::Ok, mode),
        None => Check::new("lockdown", State::Ok, "not in this kernel"),
    }
}

fn monitor_program(probe: &Probe, needed: State) -> Check {
    let name = "monitor-program";
    match &probe.hook {
        Hook::Loads => Check::new(
            name,
            State::Ok,
            "loads and attaches (tp_btf/sched_switch, task storage)",
        ),
        Hook::Fails { why, advice, .. } => {
            let check = Check::new(name, needed, why).means(
                "locks cannot know of preemptions: waiters spin for a fixed time, then block",
            );
            Check {
                advice: advice.clone(),
                ..check
            }
        }
    }
}

fn jit(probe: &Probe) -> Check {
    match probe.bpf_jit {
        Some(true) => Check::new("bpf-jit", State::Ok, "on"),
        Some(false) => Check::new("bpf-jit", State::Absent, "off")
            .means("the monitor's program is interpreted at each context switch: slow")
            .advice("sysctl net.core.bpf_jit_enable=1"),
        None => Check::new("bpf-jit", State::Absent, "not readable by this user")
            .means("the kernels of the usual distributions have it on"),
    }
}

fn unprivileged_bpf() -> Check {
    let setting = libc_facts::read_line("/proc/sys/kernel/unprivileged_bpf_disabled");
    unprivileged_bpf_of(setting.as_deref())
}

/// No program of ours needs it. But each client has the descriptor of the page, which is frozen for processes alone: a BPF
/// program can write it.
fn unprivileged_bpf_of(setting: Option<&str>) -> Check {
    let name = "unprivileged-bpf";
    let found = match setting {
        Some("0") => {
            return Check::new(name, State::Absent, "not disabled")
                .means("any user can write the monitor's page by a BPF program, and make everybody's locks block")
                .advice("sysctl kernel.unprivileged_bpf_disabled=2");
        }
        Some("1") => "disabled until the next boot",
        Some("2") => "disabled",
        _ => "not readable",
    };
    Check::new(name, State::Ok, format!("{found} (not used)"))
}

/// A program under more filters than FLEXGUARD_FILTERS says runs without the monitor; `flexguard run` says its own number.
fn seccomp_filters() -> Check {
    let name = "seccomp-filters";
    let Some(number) = filters::of("self") else {
        return Check::new(name, State::Ok, "not in this kernel");
    };
    let set = std::env::var(FILTERS_ENV).ok();
    let expected = set.as_ref().and_then(|n| n.trim().parse().ok());
    let found = match &set {
        Some(set) => format!("{number}; {FILTERS_ENV} is {set:?}"),
        None => format!("{number}; {FILTERS_ENV} is not set"),
    };
    if number <= expected.unwrap_or(filters::WITHOUT_ENV) {
        return Check::new(name, State::Ok, found);
    }
    Check::new(name, State::Absent, found)
        .means("a program that is started here without `flexguard run` counts as in a sandbox, and uses no monitor")
        .advice(format!("set {FILTERS_ENV}={number} where these filters are as they should be"))
}

fn daemon() -> Check {
    let name = "monitor-daemon";
    let socket = match SocketName::from_env() {
        Ok(Some(socket)) => socket,
        Ok(None) => {
            return Check::new(name, State::Absent, "FLEXGUARD_SOCKET is empty")
                .means("programs use no monitor")
                .advice("unset FLEXGUARD_SOCKET");
        }
        Err(e) => {
            return Check::new(name, State::Absent, e.told())
                .advice("correct FLEXGUARD_SOCKET, or unset it");
        }
    };
    match Stats::query(&socket) {
        Ok(stats) => Check::new(
            name,
            State::Ok,
            format!(
                "answers on {socket}, {} processes registered",
                stats.registered_processes
            ),
        ),
        Err(e) => Check::new(name, State::Absent, e.told())
            .means("`flexguard run` loads a monitor for each run, if it has the privilege")
            .advice("start `flexguard monitor` to have one for the whole machine"),
    }
}

fn interposers(prefix: &Prefix) -> Check {
    let name = "locks";
    let locks = match locks::read(prefix) {
        Ok(locks) => locks,
        Err(e) => {
            return Check::new(name, State::Missing, format!("{e:#}"))
                .means("no lock can be used")
                .advice("run `make`");
        }
    };
    let own: Vec<_> = locks.iter().filter(|l| l.name != POSIX).collect();
    let missing: Vec<&str> = own
        .iter()
        .filter(|l| !prefix.interposer(&l.name).is_file())
        .map(|l| l.name.as_str())
        .collect();
    if missing.is_empty() {
        return Check::new(
            name,
            State::Ok,
            format!("{} in {}", own.len(), prefix.dir().display()),
        );
    }
    Check::new(
        name,
        State::Missing,
        format!("no library for {}", missing.join(", ")),
    )
    .means("these locks cannot be used")
    .advice("the installation is incomplete: run `make`")
}

fn glibc(prefix: &Prefix) -> Check {
    let (name, version) = ("glibc", libc_facts::glibc_version());
    match locks::ask(&prefix.probe(), "glibc") {
        Ok(Ok(objects)) => Check::new(name, State::Ok, format!("{version}; knows its {objects}")),
        Ok(Err(unknown)) => Check::new(
            name,
            State::Absent,
            format!("{version}; its {unknown} are not as known"),
        )
        .means("programs have these from glibc, as without FlexGuard; their mutexes are replaced")
        .advice("report this version of glibc to the project"),
        Err(e) => probe_does_not_run(name, &e),
    }
}

fn probe_does_not_run(name: &'static str, error: &io::Error) -> Check {
    Check::new(
        name,
        State::Absent,
        format!("unknown: fg-probe does not run: {error}"),
    )
    .means("the installation is incomplete: libexec/flexguard/fg-probe is part of it")
    .advice("run `make`")
}

fn rseq() -> Check {
    match libc_facts::rseq_area() {
        Some(size) => Check::new(
            "rseq",
            State::Ok,
            format!("registered by the C library, {size} bytes"),
        ),
        None => Check::new("rseq", State::Absent, "not registered by the C library")
            .means("FlexGuard does not need it"),
    }
}

fn slice_extension(prefix: &Prefix) -> Check {
    let name = "slice-extension";
    match locks::lack(&prefix.probe(), "slice") {
        Ok(None) => Check::new(name, State::Ok, "available"),
        Ok(Some(why)) => Check::new(name, State::Absent, format!("not available: {why}"))
            .means("a lock holder cannot ask the scheduler for more time: the locks that need this are refused")
            .advice("boot Linux 7.0 or later, built with CONFIG_RSEQ_SLICE_EXTENSION"),
        Err(e) => probe_does_not_run(name, &e),
    }
}

fn render(checks: &[Check], works: bool) -> String {
    let row = |check: &Check| {
        let state = match check.state {
            State::Ok => "ok",
            State::Missing => "NOT OK",
            State::Absent => "absent",
        };
        let to_do = check.advice.iter().map(|advice| format!("to do: {advice}"));
        let lines = [check.found.clone(), check.meaning.clone()]
            .into_iter()
            .chain(to_do);
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        vec![state.to_owned(), check.name.to_owned(), lines.join("\n")]
    };
    let table = output::table(&[""; 0], checks.iter().map(row).collect(), 0..0);
    let verdict = if works {
        "The whole system works here."
    } else {
        "Something is missing: the locks run without the monitor, or do not run at all. See NOT OK above."
    };
    format!("{table}\n{verdict}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_where_any_user_may_load_bpf_is_told_of() {
        let state = |setting| unprivileged_bpf_of(Some(setting)).state;
        let states = ["0", "1", "2"].map(state);
        assert_eq!(states, [State::Absent, State::Ok, State::Ok]);
    }

    #[test]
    fn the_advice_is_below_its_check() {
        let checks = [
            Check::new("kernel", State::Ok, "6.1"),
            Check::new("btf", State::Missing, "none")
                .means("no monitor")
                .advice("boot another"),
        ];
        let text = render(&checks, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok      kernel  6.1");
        assert_eq!(lines[1], "NOT OK  btf     none");
        assert_eq!(lines[3].trim(), "to do: boot another");
        assert_eq!(lines[1].find("none"), lines[2].find("no monitor"));
    }
}
