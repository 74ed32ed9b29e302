// SPDX-License-Identifier: MIT
//! Which edges of the code were taken: LLVM's SanitizerCoverage, with a counter of 8 bits for each edge.

/// The counters of each object, and what was seen of each counter, a bit for each power of two.
pub struct Coverage(Vec<Region>);

struct Region {
    counters: &'static mut [u8],
    seen: Vec<u8>,
}

#[cfg(fuzz_coverage)]
mod regions {
    use std::sync::Mutex;

    pub static ALL: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

    /// Called by constructors of the objects that were compiled so.
    // SAFETY: no other object has this name.
    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_8bit_counters_init(begin: usize, end: usize) {
        let mut all = ALL.lock().unwrap();
        if !all.contains(&(begin, end)) {
            all.push((begin, end));
        }
    }
}

impl Coverage {
    #[cfg(not(fuzz_coverage))]
    pub fn new() -> Coverage {
        Coverage(Vec::new())
    }

    #[cfg(fuzz_coverage)]
    pub fn new() -> Coverage {
        let all = regions::ALL.lock().unwrap();
        let region = |&(begin, end): &(usize, usize)| {
            // SAFETY: the compiler's counters, which live for ever. Instrumented code adds to them meanwhile, and what a
            // race loses is one count.
            let counters = unsafe { std::slice::from_raw_parts_mut(begin as *mut u8, end - begin) };
            let seen = vec![0; counters.len()];
            Region { counters, seen }
        };
        Coverage(all.iter().map(region).collect())
    }

    /// Has something new been seen since the last call?
    pub fn is_new(&mut self) -> bool {
        let mut new = false;
        for region in &mut self.0 {
            for (counter, seen) in region.counters.iter_mut().zip(&mut region.seen) {
                if *counter == 0 {
                    continue;
                }
                let bit = 1 << counter.ilog2();
                new |= *seen & bit == 0;
                *seen |= bit;
                *counter = 0;
            }
        }
        new
    }

    /// How many edges were taken, of how many.
    pub fn taken(&self) -> (usize, usize) {
        let taken = |region: &Region| region.seen.iter().filter(|seen| **seen != 0).count();
        let all = self.0.iter().map(|region| region.seen.len()).sum();
        (self.0.iter().map(taken).sum(), all)
    }
}
