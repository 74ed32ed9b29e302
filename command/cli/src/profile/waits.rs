// SPDX-License-Identifier: MIT
//! What the threads of a running process sleep for in futex(2): the objects by name, the call stacks by samples.

use std::collections::HashMap;

use flexguard_launch::output;
use flexguard_monitor::{Wait, Word};
use serde::Serialize;

use super::maps::Maps;
use super::objects::Objects;
use super::record::{Kind, Place, duration};
use super::unwind::Unwinder;
use crate::symbols::Symbols;

/// Call sites of an object that are shown as text, and that are kept.
const SITES: usize = 3;
const MOST_SITES: usize = 64;

/// An object that threads slept for. An object of pthreads may have several futex words: those of one name are one.
#[derive(Debug, Default, Serialize)]
pub struct Waited {
    /// Of the futex word; of several the first.
    pub address: String,
    /// The variable; None: it is in allocated memory, or its file has no symbols.
    pub name: Option<String>,
    /// By the function that waits; None: it is none of pthreads', or no call stack was stored.
    pub kind: Option<Kind>,
    /// Waits that have ended, and those that go on.
    pub waits: u64,
    pub waiting: u64,
    pub seconds: f64,
    pub longest_us: f64,
    /// Estimates: a sample stands for 10 ms of waiting, or for the whole of a longer wait.
    pub sites: Vec<Site>,
}

#[derive(Debug, Serialize)]
pub struct Site {
    pub samples: u64,
    pub seconds: f64,
    pub stack: Vec<Place>,
}

/// By the word's address, and there by call stack: samples, and the nanoseconds that they stand for.
pub struct Sleepers {
    unwinder: Unwinder,
    seen: HashMap<u64, HashMap<Vec<u64>, (u64, u64)>>,
    /// What the stacks mean, found while the process is there to tell.
    places: HashMap<Vec<u64>, Vec<Place>>,
    /// The same of words.
    names: HashMap<u64, Option<String>>,
    objects: Objects,
}

impl Sleepers {
    pub fn new(pid: u32) -> Sleepers {
        Sleepers {
            unwinder: Unwinder::new(pid),
            seen: HashMap::new(),
            places: HashMap::new(),
            names: HashMap::new(),
            objects: Objects::default(),
        }
    }

    pub fn add(&mut self, wait: &Wait, symbols: &Symbols) {
        let stack = self.unwinder.stack(wait);
        let sites = self.seen.entry(wait.word).or_default();
        let sum = sites.entry(stack.clone()).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(wait.stands_for_ns());
        let (maps, objects) = (self.unwinder.maps(), &self.objects);
        self.places
            .entry(stack)
            .or_insert_with_key(|stack| without_inside(places(maps, objects, symbols, stack)));
        self.name(wait.word);
    }

    fn name(&mut self, word: u64) -> Option<String> {
        if !self.names.contains_key(&word) {
            let in_file = self.unwinder.maps().in_file(word);
            let name = in_file.and_then(|(path, address)| self.objects.name(&path, address));
            self.names.insert(word, name);
        }
        self.names[&word].clone()
    }

    pub fn waits(mut self, words: &[Word]) -> Vec<Waited> {
        let mut all: HashMap<String, Waited> = HashMap::new();
        for word in words {
            let name = self.name(word.address);
            let sites = self.seen.remove(&word.address).unwrap_or_default();
            let sites = sites.into_iter().map(|(stack, (samples, ns))| Site {
                samples,
                seconds: ns as f64 / 1e9,
                stack: self.places.get(&stack).cloned().unwrap_or_default(),
            });
            let sites: Vec<Site> = sites.collect();
            let kind = sites.iter().find_map(|site| kind_of(&site.stack));
            let address = format!("{:#x}", word.address);
            let key = name.clone().unwrap_or_else(|| address.clone());
            let waited = all.entry(key).or_insert_with(|| Waited {
                address,
                name,
                ..Waited::default()
            });
            waited.kind = waited.kind.or(kind);
            waited.add(word, sites);
        }
        let mut all: Vec<Waited> = all.into_values().collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        all
    }
}

/// What the addresses mean; all but the first are behind a call.
fn places(maps: &Maps, objects: &Objects, symbols: &Symbols, stack: &[u64]) -> Vec<Place> {
    let of = |(i, &address): (usize, &u64)| {
        let found = maps.in_file(address);
        let in_module = found.as_ref().map_or(0, |(_, at)| *at);
        let behind = in_module + u64::from(i == 0);
        let path = found.as_ref().map(|(path, _)| path.as_str());
        let frames = symbols.of_file(path, behind, address).into_iter();
        let module = maps.path(address);
        let exported = || objects.function(path?, in_module);
        let frames = frames.map(|mut frame| {
            frame.symbol = frame.symbol.or_else(exported);
            Place {
                frame,
                module: module.clone(),
                in_module,
            }
        });
        frames.collect::<Vec<Place>>()
    };
    stack.iter().enumerate().flat_map(of).collect()
}

/// Without the functions inside libc by which that of pthreads waits.
fn without_inside(mut stack: Vec<Place>) -> Vec<Place> {
    let waits = |place: &Place| function(place).is_some();
    let outermost = stack.iter().position(waits).unwrap_or(0);
    stack.drain(..outermost);
    stack
}

/// By the innermost function of pthreads.
fn kind_of(stack: &[Place]) -> Option<Kind> {
    stack.iter().find_map(function)
}

/// What the function waits for, if it is one of pthreads'.
fn function(place: &Place) -> Option<Kind> {
    let functions = [
        ("pthread_mutex_", Kind::Mutex),
        ("pthread_rwlock_", Kind::RwLock),
        ("pthread_cond_", Kind::ConditionVariable),
        ("pthread_barrier_", Kind::Barrier),
        ("sem_", Kind::Semaphore),
    ];
    let symbol = place.frame.symbol.as_deref()?.trim_start_matches('_');
    let function = functions.iter().find(|(name, _)| symbol.starts_with(name));
    function.map(|(_, kind)| *kind)
}

impl Waited {
    fn add(&mut self, word: &Word, sites: Vec<Site>) {
        self.waits += word.waits;
        self.waiting += word.waiting;
        self.seconds += word.ns as f64 / 1e9;
        self.longest_us = self.longest_us.max(word.longest_ns as f64 / 1e3);
        self.sites.extend(sites);
        self.sites.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        self.sites.truncate(MOST_SITES);
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }

    pub fn label(&self) -> String {
        let kind = self.kind.map_or("futex", Kind::text);
        format!("{kind} {}", self.name())
    }

    fn row(&self) -> Vec<String> {
        vec![
            output::foreign(self.name()).into_owned(),
            self.kind.map_or("-", Kind::text).to_owned(),
            self.waits.to_string(),
            self.waiting.to_string(),
            duration(self.seconds * 1e6),
            duration(self.longest_us),
        ]
    }
}

pub fn text(waits: &[Waited], most: usize) -> String {
    if waits.is_empty() {
        return "no thread slept for a lock\n".into();
    }
    let shown = &waits[..waits.len().min(most)];
    let titles = ["lock", "kind", "waits", "waiting", "waited", "longest"];
    let rows = shown.iter().map(Waited::row).collect();
    let mut text = output::table(&titles, rows, 2..titles.len());
    for waited in shown.iter().filter(|waited| !waited.sites.is_empty()) {
        let name = output::foreign(waited.name());
        text += &format!("{name}: threads slept for it in\n");
        let all: f64 = waited.sites.iter().map(|site| site.seconds).sum();
        for site in waited.sites.iter().take(SITES) {
            let stack: Vec<String> = site.stack.iter().map(Place::text).collect();
            let stack = stack.join(" < ");
            let share = site.seconds / all.max(f64::MIN_POSITIVE) * 100.0;
            text += &format!("  {share:3.0} % of the time: {}\n", output::foreign(&stack));
        }
    }
    if waits.len() > most {
        text += &format!("{} locks more (--top)\n", waits.len() - most);
    }
    text
}
