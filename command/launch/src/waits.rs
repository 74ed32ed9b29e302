// SPDX-License-Identifier: MIT
//! How long the threads of common runtimes spin before they sleep, and which variables say so. No lock of ours reaches
//! these loops.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::{Command, Stdio};

use crate::unwatchable::{find, loader};

/// A variable that makes a runtime's threads spin for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What the names of the runtime's libraries begin with.
    libraries: &'static [&'static str],
    pub runtime: &'static str,
    pub variable: &'static str,
    pub value: &'static str,
    /// What the runtime does with it, and without it.
    pub why: &'static str,
    /// If one of these is set, the user has decided.
    decided_by: &'static [&'static str],
}

/// Of several of a runtime, the first is what `flexguard run --presets` sets; `flexguard advise` tries them all.
pub const PRESETS: &[Preset] = &[
    Preset {
        libraries: &["libgomp.so"],
        runtime: "GNU OpenMP",
        variable: "GOMP_SPINCOUNT",
        value: "1000",
        why: "a thread that waits spins 1,000 times, some microseconds, before it sleeps; by default 300,000 times unless \
              the program has more threads than CPUs",
        decided_by: &["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"],
    },
    Preset {
        libraries: &["libgomp.so"],
        runtime: "GNU OpenMP",
        variable: "OMP_WAIT_POLICY",
        value: "passive",
        why: "a thread that waits sleeps at once; by default it spins 300,000 times unless the program has more threads \
              than CPUs",
        decided_by: &["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"],
    },
    Preset {
        libraries: &["libomp.so", "libiomp5.so"],
        runtime: "LLVM's and Intel's OpenMP",
        variable: "KMP_BLOCKTIME",
        value: "0",
        why: "a thread that waits sleeps at once; by default it spins for 200 ms",
        decided_by: &["KMP_BLOCKTIME", "OMP_WAIT_POLICY", "KMP_LIBRARY"],
    },
    Preset {
        libraries: &["libopenblas"],
        runtime: "OpenBLAS",
        variable: "OPENBLAS_THREAD_TIMEOUT",
        value: "16",
        why: "an idle thread yields for 2^16 cycles, some 25 us, before it sleeps; by default for 2^26, some 25 ms",
        decided_by: &["OPENBLAS_THREAD_TIMEOUT"],
    },
];

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            runtime,
            variable,
            value,
            why,
            ..
        } = self;
        write!(f, "{variable}={value} ({runtime}: {why})")
    }
}

impl Preset {
    /// As it is written before a command.
    pub fn setting(&self) -> String {
        format!("{}={}", self.variable, self.value)
    }
}

/// Those of the runtimes that the program is linked to, whose variables are not set.
pub fn presets_of(program: &OsStr) -> Vec<&'static Preset> {
    presets_for(&loaded_by(program), |variable| {
        std::env::var_os(variable).is_some()
    })
}

/// The first of each runtime.
pub fn one_each(presets: Vec<&'static Preset>) -> Vec<&'static Preset> {
    let mut kept: Vec<&'static Preset> = Vec::new();
    for preset in presets {
        if kept.iter().all(|k| k.runtime != preset.runtime) {
            kept.push(preset);
        }
    }
    kept
}

fn presets_for(libraries: &[String], is_set: impl Fn(&str) -> bool) -> Vec<&'static Preset> {
    let loads = |preset: &Preset| {
        libraries
            .iter()
            .any(|name| preset.libraries.iter().any(|begin| name.starts_with(begin)))
    };
    PRESETS
        .iter()
        .filter(|preset| loads(preset) && !preset.decided_by.iter().any(|v| is_set(v)))
        .collect()
}

/// The names of the libraries that its loader would load for the program, as the loader itself lists them: the program
/// does not run. What it loads while it runs is not among them. None of a script, or where the program is static.
fn loaded_by(program: &OsStr) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = find(program, &path).and_then(|file| Some((loader(&file)?, file)));
    let Some((loader, file)) = found else {
        return vec![];
    };
    let listed = Command::new(loader)
        .arg("--list")
        .arg(file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(listed) = listed else {
        return vec![];
    };
    names_in(&String::from_utf8_lossy(&listed.stdout))
}

/// Of lines like `libm.so.6 => /lib/libm.so.6 (0x…)`.
fn names_in(listed: &str) -> Vec<String> {
    let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(file)
        .collect()
}

/// What to set for the program that is to be started.
pub fn environment(presets: &[&Preset]) -> Vec<(&'static str, OsString)> {
    presets
        .iter()
        .map(|preset| (preset.variable, preset.value.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgomp.so.1 => /lib/x86_64-linux-gnu/libgomp.so.1 (0x7f)\n\
                          \t/opt/blas/libopenblasp-r0.3.21.so (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n";

    fn variables(presets: &[&Preset]) -> Vec<&'static str> {
        presets.iter().map(|preset| preset.variable).collect()
    }

    #[test]
    fn runtimes_are_known_by_their_libraries() {
        let names = names_in(LISTED);
        assert_eq!(
            variables(&presets_for(&names, |_| false)),
            [
                "GOMP_SPINCOUNT",
                "OMP_WAIT_POLICY",
                "OPENBLAS_THREAD_TIMEOUT"
            ]
        );
        assert_eq!(
            variables(&one_each(presets_for(&names, |_| false))),
            ["GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT"]
        );
        assert!(presets_for(&names_in("\tlibc.so.6 => /lib/libc.so.6"), |_| false).is_empty());
        let intel = names_in("\tlibiomp5.so => /opt/libiomp5.so (0x7f)");
        assert_eq!(
            variables(&presets_for(&intel, |_| false)),
            ["KMP_BLOCKTIME"]
        );
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let names = names_in(LISTED);
        let set = |variable: &str| variable == "OMP_WAIT_POLICY";
        assert_eq!(
            variables(&presets_for(&names, set)),
            ["OPENBLAS_THREAD_TIMEOUT"]
        );
    }

    #[test]
    fn the_loader_says_what_a_program_loads() {
        let own = loaded_by(std::env::current_exe().unwrap().as_os_str());
        assert!(
            own.iter().any(|name| name.starts_with("libc.so")),
            "{own:?}"
        );
        assert!(loaded_by(OsStr::new("/no/such/program")).is_empty());
    }

    #[test]
    fn a_preset_says_what_it_does() {
        let preset = presets_for(&names_in(LISTED), |_| false)[0];
        assert!(
            preset
                .to_string()
                .starts_with("GOMP_SPINCOUNT=1000 (GNU OpenMP: ")
        );
        assert_eq!(preset.setting(), "GOMP_SPINCOUNT=1000");
        assert_eq!(environment(&[preset]), [("GOMP_SPINCOUNT", "1000".into())]);
    }
}
