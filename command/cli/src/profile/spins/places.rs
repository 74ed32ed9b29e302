// SPDX-License-Identifier: MIT
//! Is the place at which a thread was sampled in a loop that waits, and in which function?

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use flexguard_monitor::SpinSample;
use serde::Serialize;

use crate::profile::maps::Maps;
use crate::symbols::{Frame, Symbols};

/// Functions that do nothing but wait, where no spin hint or yield betrays them. A `*` at the end stands for any end.
const KNOWN: [&str; 16] = [
    "s_lock",
    "perform_spin_delay",
    "ggml_barrier",
    "ggml_graph_compute_poll*",
    "do_spin",
    "do_wait",
    "gomp_barrier_wait*",
    "gomp_team_barrier_wait*",
    "gomp_simple_barrier_wait*",
    "gomp_mutex_lock_slow",
    "__kmp_wait*",
    "__kmpc_barrier",
    "ut_delay",
    "fg_wait_once",
    "fg_wait_advice",
    "fgi_advice",
];
const YIELDS: [&str; 2] = ["sched_yield", "__sched_yield"];
/// A spin hint so near, in bytes, makes it a loop that waits.
const NEAR: usize = 16;

/// What shows that a thread waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The function is known to wait, or the user says so.
    Symbol,
    /// A spin hint beside the instruction.
    SpinHint,
    /// It was in sched_yield.
    Yield,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spin {
    /// None: the file has no symbol there.
    pub function: Option<String>,
    /// The file's name.
    pub file: Option<String>,
    pub evidence: Evidence,
}

/// Remembers the places that it has looked at.
pub struct Places {
    known: Vec<String>,
    symbols: Symbols,
    seen: HashMap<(u32, u64), Place>,
}

#[derive(Clone, Default)]
struct Place {
    /// Innermost first; of inlined functions, too.
    functions: Vec<String>,
    file: Option<String>,
    has_hint: bool,
}

impl Places {
    pub fn new(more: &[String]) -> Places {
        let known = KNOWN.iter().map(|&name| name.to_owned());
        Places {
            known: known.chain(more.iter().cloned()).collect(),
            symbols: Symbols::new(),
            seen: HashMap::new(),
        }
    }

    /// None: the thread did not wait there.
    pub fn of(&mut self, sample: &SpinSample) -> Option<Spin> {
        let yields = sample.call == Some(libc::SYS_sched_yield as u32);
        if sample.call.is_some() && !yields {
            return None;
        }
        let place = self.place(sample.pid, sample.ip);
        let is_in = |name: &str| place.functions.iter().any(|function| function == name);
        if yields || YIELDS.iter().any(|name| is_in(name)) {
            let caller = self.place(sample.pid, sample.caller);
            return Some(caller.spin(None, Evidence::Yield));
        }
        let known = place.functions.iter().find(|name| self.is_known(name));
        match known {
            Some(name) => Some(place.spin(Some(name), Evidence::Symbol)),
            None => (place.has_hint).then(|| place.spin(None, Evidence::SpinHint)),
        }
    }

    fn is_known(&self, function: &str) -> bool {
        self.known.iter().any(|name| matches(name, function))
    }

    fn place(&mut self, pid: u32, address: u64) -> Place {
        let symbols = &self.symbols;
        let found = self.seen.entry((pid, address)).or_insert_with(|| Place {
            functions: (symbols.of(pid, &[address]).into_iter())
                .filter_map(|frame: Frame| frame.symbol)
                .collect(),
            file: file_at(pid, address),
            has_hint: code_at(pid, address).is_some_and(|code| has_hint(&code)),
        });
        found.clone()
    }
}

impl Place {
    /// The function that is not inlined, unless another one is meant.
    fn spin(&self, function: Option<&String>, evidence: Evidence) -> Spin {
        Spin {
            function: function.or(self.functions.last()).cloned(),
            file: self.file.clone(),
            evidence,
        }
    }
}

fn matches(pattern: &str, function: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => function.starts_with(begin),
        // Of a function that the compiler has split or changed, it names the parts: `f.part.0`.
        None => function.strip_prefix(pattern).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('.') || rest.starts_with(" [clone ")
        }),
    }
}

/// The name of the file that is mapped there.
fn file_at(pid: u32, address: u64) -> Option<String> {
    let path = Maps::of(pid).path(address)?;
    path.rsplit('/').next().map(str::to_owned)
}

/// The bytes around an address.
fn code_at(pid: u32, address: u64) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut code = vec![0; 2 * NEAR];
    let from = address.checked_sub(NEAR as u64)?;
    let n = memory.read_at(&mut code, from).ok()?;
    code.truncate(n);
    Some(code)
}

/// `pause`.
#[cfg(target_arch = "x86_64")]
fn has_hint(code: &[u8]) -> bool {
    code.windows(2).any(|bytes| bytes == [0xf3, 0x90])
}

/// `yield`, `wfe`, `isb`.
#[cfg(target_arch = "aarch64")]
fn has_hint(code: &[u8]) -> bool {
    let hints = [0xd503_203f_u32, 0xd503_205f, 0xd503_3fdf].map(u32::to_le_bytes);
    code.chunks_exact(4)
        .any(|bytes| hints.iter().any(|hint| hint == bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_anything_where_a_star_says_so() {
        assert!(matches("s_lock", "s_lock") && !matches("s_lock", "s_lock_stuck"));
        assert!(matches("gomp_team_*", "gomp_team_barrier_wait_end"));
        assert!(matches("*", "anything") && !matches("b*", "ab"));
    }

    #[test]
    fn the_parts_of_a_function_have_its_name() {
        for part in ["wait", "wait.part.0", "wait.constprop.0.cold"] {
            assert!(matches("wait", part), "{part}");
        }
        assert!(matches("a::b()", "a::b() [clone .cold]") && !matches("wait", "wait_more"));
    }

    #[inline(never)]
    fn waits(word: &std::sync::atomic::AtomicBool) {
        while !word.load(std::sync::atomic::Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_spin_hint_is_found_beside_the_loop_that_has_it() {
        waits(&true.into());
        let here = waits as *const () as u64;
        let code = code_at(std::process::id(), here + NEAR as u64).unwrap();
        assert!(has_hint(&code), "{code:x?}");
        assert!(!has_hint(&[0x90, 0xf3, 0x90 ^ 1, 0x90]));
        assert!(!has_hint(&[0xf3]));
    }

    #[test]
    fn a_system_call_is_no_spin_unless_it_yields() {
        let mut places = Places::new(&["a_system_call_is_no_spin*".to_owned()]);
        let mut sample = SpinSample {
            pid: std::process::id(),
            tid: 1,
            cpu: std::time::Duration::ZERO,
            life: 0,
            ip: 1,
            caller: 1,
            call: Some(libc::SYS_read as u32),
            waiting: Some(0),
        };
        assert_eq!(places.of(&sample), None);
        sample.call = None;
        assert_eq!(places.of(&sample), None);
        sample.call = Some(libc::SYS_sched_yield as u32);
        assert_eq!(places.of(&sample).unwrap().evidence, Evidence::Yield);
    }
}
