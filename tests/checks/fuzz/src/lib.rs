// SPDX-License-Identifier: MIT
//! Calls a reader with damaged input, as a test of the crate that has the reader. The reader must return, whatever it
//! returns: no panic, no hang, no more memory than LIMIT.
//!
//! As a plain test it is short and the same each time. tests/fuzz/fuzz runs it for longer (FLEXGUARD_FUZZ_SECONDS), built
//! so that the compiler counts which edges of the code were taken: input that takes new ones is kept and damaged further.

mod coverage;
mod damage;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coverage::Coverage;
use damage::Random;

const ROUNDS: u64 = 2000;
/// So much CPU time may one call take. The time by the clock is the machine's doing.
const LONGEST: Duration = Duration::from_secs(20);
/// Of one input.
const MOST_BYTES: usize = 1 << 16;
/// Of the inputs that are kept.
const MOST_KEPT: usize = 4096;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Where the input of the moment is: after a crash that no test survives it is still there.
struct Place {
    path: PathBuf,
    file: Option<File>,
}

impl Place {
    fn new(target: &str) -> Place {
        let directory = std::env::var_os("FLEXGUARD_FUZZ_DIRECTORY").map(PathBuf::from);
        let path = directory.unwrap_or_default().join(target);
        let file = number("FLEXGUARD_FUZZ_SECONDS").and_then(|_| File::create(&path).ok());
        Place { path, file }
    }

    fn keep(&self, input: &[u8]) {
        if let Some(file) = &self.file {
            let _ = file.write_all_at(input, 0);
            let _ = file.set_len(input.len() as u64);
        }
    }
}

/// Calls `read` with each of `corpus`, and then with what damaging makes of them.
pub fn fuzz(target: &str, corpus: &[&[u8]], read: impl Fn(&[u8])) {
    let limit = number("FLEXGUARD_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = number("FLEXGUARD_FUZZ_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let mut coverage = Coverage::new();
    let mut kept: Vec<Vec<u8>> = corpus.iter().map(|input| input.to_vec()).collect();
    kept.push(Vec::new());
    let place = Place::new(target);
    let begin = Instant::now();
    let mut rounds = 0;
    while limit.map_or(rounds < ROUNDS, |limit| begin.elapsed() < limit) {
        let input = match kept.get(rounds as usize) {
            Some(input) if rounds <= corpus.len() as u64 => input.clone(),
            _ => damage::damaged(&kept, &mut random, MOST_BYTES),
        };
        place.keep(&input);
        call(target, &place, seed, &input, &read);
        if coverage.is_new() && kept.len() < MOST_KEPT && !kept.contains(&input) {
            kept.push(input);
        }
        rounds += 1;
    }
    if limit.is_some() {
        let (edges, of) = coverage.taken();
        println!(
            "{target}: {rounds} inputs, {} kept, {edges} of {of} edges",
            kept.len()
        );
        let _ = fs::remove_file(&place.path);
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is one.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn call(target: &str, place: &Place, seed: u64, input: &[u8], read: &impl Fn(&[u8])) {
    let begin = cpu_time();
    let result = catch_unwind(AssertUnwindSafe(|| read(input)));
    let failed = match &result {
        Err(_) => "panics",
        Ok(()) if cpu_time() - begin > LONGEST => "takes too long",
        Ok(()) => return,
    };
    eprintln!(
        "{target} {failed} (seed {seed}; {}): {}",
        place.path.display(),
        input.escape_ascii()
    );
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(()) => panic!("{target} {failed}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_panics_is_found() {
        let calls = Cell::new(0);
        let found = catch_unwind(AssertUnwindSafe(|| {
            fuzz("test", &[b"number = 12345"], |input| {
                calls.set(calls.get() + 1);
                assert!(input.starts_with(b"number") || input.len() < 8);
            });
        }));
        assert!(found.is_err() && calls.get() > 1);
    }

    #[test]
    fn what_sleeps_takes_no_time() {
        let begin = cpu_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(cpu_time() - begin < Duration::from_millis(200));
        while cpu_time() - begin < Duration::from_millis(20) {}
    }

    #[test]
    fn the_corpus_comes_first_and_is_damaged_in_many_ways() {
        let seen = std::cell::RefCell::new(std::collections::HashSet::new());
        fuzz("test", &[b"first", b"second"], |input| {
            seen.borrow_mut().insert(input.to_vec());
        });
        let seen = seen.into_inner();
        assert!(seen.contains(&b"first"[..]) && seen.contains(&b"second"[..]));
        assert!(seen.len() > ROUNDS as usize / 4, "{}", seen.len());
    }
}
