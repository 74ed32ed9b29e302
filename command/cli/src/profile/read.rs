// SPDX-License-Identifier: MIT
//! Reads the file of a process.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flexguard_abi::profile as abi;
use flexguard_launch::failure::{Context, Failure, Result};
use zerocopy::{FromZeros, IntoBytes};

use super::objects::Objects;
use super::record::{Kind, Lock, Lost, Place, Process, Site, Times};
use crate::symbols::Symbols;

/// None: the process took no lock.
pub fn read(path: &Path, symbols: &Symbols) -> Result<Option<Process>> {
    let doing = format!("cannot read the profile {}", path.display());
    let mut file = File::open(path).context(&doing)?;
    let mut raw = abi::fg_profile::new_box_zeroed()
        .map_err(|_| Failure::new(&doing).advice("there is too little memory"))?;
    file.read_exact(raw.as_mut_bytes()).context(&doing)?;
    // The process may have died before the first store.
    if raw.magic == 0 {
        return Ok(None);
    }
    if raw.magic != abi::FG_PROFILE_MAGIC || raw.size != size_of::<abi::fg_profile>() as u64 {
        return Err(
            Failure::new(format_args!("{doing}: it is of another version"))
                .advice("the installation is incomplete: run `make`"),
        );
    }
    Ok(Some(Process::of(&raw, symbols)).filter(|process| !process.locks.is_empty()))
}

impl Process {
    fn of(raw: &abi::fg_profile, symbols: &Symbols) -> Process {
        let mut places = Places::of(raw, symbols);
        let mut sites = sites(raw, &mut places);
        let first_uses = first_uses(raw);
        let objects = Objects::default();
        let mut counts: HashMap<u32, Counts> = HashMap::new();
        for (index, lock) in raw.locks.iter().enumerate().filter(|(_, l)| l.mutex != 0) {
            let own = [
                lock.acquisitions,
                lock.contended,
                lock.failed,
                lock.cond_waits,
            ];
            counts.insert(index as u32, Counts(own));
        }
        let blocks = raw.blocks.iter().flat_map(|block| &block.counts);
        for of in blocks.filter(|of| of.mutex != 0) {
            let own = [of.acquisitions, of.contended, of.failed, of.cond_waits];
            counts.entry(of.lock).or_default().add(own);
        }
        let known = |index: u32| raw.locks.get(index as usize);
        let mut locks: Vec<Lock> = (counts.into_iter())
            .filter_map(|(index, counts)| {
                let sites = sites.remove(&index).unwrap_or_default();
                let raw = known(index)?;
                let name = places.variable(raw.mutex, &objects);
                let lock = Lock::of(raw, name, counts, sites);
                let first_use = first_uses.get(&index).filter(|_| lock.name.is_none());
                let first_use = first_use.map(|stack| places.of_stack(stack));
                Some(Lock { first_use, ..lock })
            })
            .filter(|lock| lock.acquisitions.max(lock.failed).max(lock.cond_waits) > 0)
            .collect();
        let order = |lock: &Lock| (lock.waited(), lock.held());
        locks.sort_by(|a, b| {
            let (a_order, b_order) = (order(a), order(b));
            (b_order.0.total_cmp(&a_order.0))
                .then(b_order.1.total_cmp(&a_order.1))
                .then(a.address.cmp(&b.address))
        });
        Process {
            pid: raw.pid,
            name: text(&raw.name),
            lost: Lost {
                acquisitions: raw.lost_acquisitions,
                call_sites: raw.lost_sites,
                holds: raw.lost_holds,
            },
            locks,
        }
    }
}

/// Acquisitions, contended ones, failed ones, and waits on condition variables.
#[derive(Default)]
struct Counts([u64; 4]);

impl Counts {
    fn add(&mut self, more: [u64; 4]) {
        add(&mut self.0, more);
    }
}

/// What the program says may be damaged: a sum does not begin anew at zero.
fn add<const N: usize>(sums: &mut [u64; N], more: [u64; N]) {
    (sums.iter_mut().zip(more)).for_each(|(sum, n)| *sum = sum.saturating_add(n));
}

impl Lock {
    fn of(
        raw: &abi::fg_profile_lock,
        name: Option<String>,
        counts: Counts,
        mut sites: Vec<Site>,
    ) -> Lock {
        let Counts([acquisitions, contended, failed, cond_waits]) = counts;
        let wait = Times::of(&raw.wait);
        let order = |site: &Site| match wait {
            Some(_) => site.wait_seconds,
            None => site.acquisitions as f64,
        };
        sites.sort_by(|a, b| order(b).total_cmp(&order(a)));
        Lock {
            address: raw.mutex,
            kind: Kind::of(raw.kind),
            name,
            first_use: None,
            acquisitions,
            contended,
            contended_share: contended as f64 / (acquisitions.max(1)) as f64,
            failed,
            cond_waits,
            wait,
            hold: Times::of(&raw.hold),
            preempted: None,
            sites,
        }
    }
}

impl Times {
    /// None: nothing was timed.
    fn of(raw: &abi::fg_profile_times) -> Option<Times> {
        let all = raw
            .buckets
            .iter()
            .fold(0, |all: u64, n| all.saturating_add(*n));
        if all == 0 {
            return None;
        }
        let max_us = raw.max_ns as f64 / 1e3;
        let percentile = |share: f64| {
            let rank = ((all as f64 * share).ceil() as u64).max(1);
            let mut seen = 0_u64;
            let bucket = raw.buckets.iter().position(|n| {
                seen = seen.saturating_add(*n);
                seen >= rank
            });
            (middle_ns(bucket.unwrap_or_default()) / 1e3).min(max_us)
        };
        Some(Times {
            total_seconds: raw.ns as f64 / 1e9,
            p50_us: percentile(0.50),
            p90_us: percentile(0.90),
            p99_us: percentile(0.99),
            max_us,
        })
    }
}

/// The first four buckets hold one number each, then four share each power of two.
fn middle_ns(bucket: usize) -> f64 {
    if bucket < 4 {
        return bucket as f64;
    }
    let power = bucket as i32 / 4 + 1;
    let step = 2f64.powi(power - 2);
    (4.5 + (bucket % 4) as f64) * step
}

fn stack_of(site: &abi::fg_profile_site) -> &[u64] {
    &site.stack[..(site.frames as usize).min(site.stack.len())]
}

/// The call stack in which each lock was used first, where it was stored.
fn first_uses(raw: &abi::fg_profile) -> HashMap<u32, &[u64]> {
    let site = |lock: &abi::fg_profile_lock| raw.sites.get(lock.first.checked_sub(1)? as usize);
    let ready = |site: &&abi::fg_profile_site| site.state == abi::FG_PROFILE_READY;
    let locks = raw.locks.iter().zip(0..).filter(|(l, _)| l.mutex != 0);
    locks
        .filter_map(|(lock, index)| Some((index, stack_of(site(lock).filter(ready)?))))
        .collect()
}

/// The call sites of each lock. Two entries with the same stack are one: two threads have stored it at once.
fn sites(raw: &abi::fg_profile, places: &mut Places<'_>) -> HashMap<u32, Vec<Site>> {
    let ready = |site: &&abi::fg_profile_site| site.state == abi::FG_PROFILE_READY;
    let mut sums: HashMap<(u32, &[u64]), [u64; 3]> = HashMap::new();
    for site in raw.sites.iter().filter(ready) {
        let stack = stack_of(site);
        let sum = sums.entry((site.lock, stack)).or_default();
        add(sum, [site.acquisitions, site.wait_ns, site.hold_ns]);
    }
    let mut sites: HashMap<u32, Vec<Site>> = HashMap::new();
    for ((lock, stack), [acquisitions, wait_ns, hold_ns]) in sums {
        sites.entry(lock).or_default().push(Site {
            acquisitions,
            wait_seconds: wait_ns as f64 / 1e9,
            hold_seconds: hold_ns as f64 / 1e9,
            stack: places.of_stack(stack),
        });
    }
    sites
}

/// What return addresses mean, each found once.
struct Places<'a> {
    modules: Vec<(&'a abi::fg_profile_module, String)>,
    symbols: &'a Symbols,
    known: HashMap<u64, Vec<Place>>,
}

impl<'a> Places<'a> {
    fn of(raw: &'a abi::fg_profile, symbols: &'a Symbols) -> Places<'a> {
        let modules = raw.modules.iter();
        let ready = modules.filter(|module| module.state == abi::FG_PROFILE_READY);
        Places {
            modules: ready.map(|module| (module, text(&module.path))).collect(),
            symbols,
            known: HashMap::new(),
        }
    }

    /// The file that the address is in, with the address as the file counts.
    fn module(&self, address: u64) -> Option<(&str, u64)> {
        let mut modules = self.modules.iter();
        let module = modules.find(|(module, _)| (module.start..module.end).contains(&address));
        let (module, path) = module.filter(|(_, path)| !path.is_empty())?;
        Some((path, address.wrapping_sub(module.base)))
    }

    /// The variable at the address.
    fn variable(&self, address: u64, objects: &Objects) -> Option<String> {
        let (path, in_module) = self.module(address)?;
        objects.name(path, in_module)
    }

    fn of_stack(&mut self, stack: &[u64]) -> Vec<Place> {
        stack.iter().flat_map(|&address| self.at(address)).collect()
    }

    /// Several places, where calls were inlined.
    fn at(&mut self, address: u64) -> Vec<Place> {
        if let Some(places) = self.known.get(&address) {
            return places.clone();
        }
        let module = self.module(address);
        let (path, in_module) = (module.map(|m| m.0), module.map_or(0, |m| m.1));
        let frames = self.symbols.of_file(path, in_module, address);
        let place = |frame| Place {
            frame,
            module: path.map(str::to_owned),
            in_module,
        };
        let places: Vec<Place> = frames.into_iter().map(place).collect();
        self.known.insert(address, places.clone());
        places
    }
}

impl Kind {
    fn of(raw: u32) -> Kind {
        match raw {
            abi::FG_PROFILE_RWLOCK => Kind::RwLock,
            abi::FG_PROFILE_COND => Kind::ConditionVariable,
            abi::FG_PROFILE_SEMAPHORE => Kind::Semaphore,
            abi::FG_PROFILE_BARRIER => Kind::Barrier,
            _ => Kind::Mutex,
        }
    }
}

fn text(name: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = (name.iter().map(|&c| c as u8))
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the input, each 16 bytes are a place in the file, and what is written there.
    #[test]
    fn fuzz_profiles() {
        let symbols = Symbols::new();
        let size = size_of::<abi::fg_profile>();
        let at = |place: usize, value: u64| [place.to_le_bytes(), value.to_le_bytes()].concat();
        let seeds: Vec<u8> = (0..64)
            .flat_map(|i| at((i * size / 64) & !7, 1 + i as u64))
            .collect();
        let mut raw = abi::fg_profile::new_box_zeroed().unwrap();
        let mut written: Vec<usize> = Vec::new();
        let raw = std::cell::RefCell::new((&mut raw, &mut written));
        flexguard_fuzz::fuzz("profiles", &[&seeds], |input| {
            let (raw, written) = &mut *raw.borrow_mut();
            let bytes = raw.as_mut_bytes();
            written.drain(..).for_each(|place| bytes[place] = 0);
            for write in input.chunks_exact(16) {
                let (place, value) = write.split_at(8);
                let place = u64::from_le_bytes(place.try_into().unwrap()) as usize % size;
                for (i, value) in value.iter().enumerate().filter(|(i, _)| place + i < size) {
                    bytes[place + i] = *value;
                    written.push(place + i);
                }
            }
            let _ = Process::of(raw, &symbols);
        });
    }

    fn times(counts: &[(usize, u64)], max_ns: u64) -> Times {
        let mut raw = abi::fg_profile_times::new_zeroed();
        raw.max_ns = max_ns;
        (counts.iter()).for_each(|&(bucket, n)| raw.buckets[bucket] = n);
        Times::of(&raw).unwrap()
    }

    #[test]
    fn percentiles_are_the_middles_of_their_buckets_and_below_the_maximum() {
        // 1024 ns to 1280 ns are a bucket: the power 10, its first quarter.
        let at_1024 = (10 - 1) * 4;
        let spread = times(&[(at_1024, 98), (at_1024 + 8, 2)], 4100);
        assert_eq!((spread.p50_us, spread.p90_us), (1.152, 1.152));
        assert_eq!((spread.p99_us, spread.max_us), (4.1, 4.1));
        assert_eq!(times(&[(2, 1)], 2).p50_us, 0.002);
        let damaged = times(&[(at_1024, u64::MAX), (at_1024 + 8, 1)], 4100);
        assert_eq!((damaged.p50_us, damaged.max_us), (1.152, 4.1));
        assert_eq!(Times::of(&abi::fg_profile_times::new_zeroed()), None);
    }
}
