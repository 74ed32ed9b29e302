// SPDX-License-Identifier: MIT
//! A profile: the result of `flexguard profile`, as its JSON has it.

use serde::{Deserialize, Serialize};

use crate::symbols::Frame;

pub const SCHEMA: &str = "flexguard-profile/1";

/// Of a lock, in the result. The flame graphs and exports of the run show them all.
const SHOWN_STACKS: usize = 64;

/// The result; docs/design/schemas/profile.json describes all of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Profile {
    pub schema: String,
    pub version: String,
    pub command: Vec<String>,
    pub lock: String,
    pub elapsed_seconds: f64,
    /// Why nothing is known of preempted holders; None: it is known.
    pub preemptions_unknown: Option<String>,
    /// Those that used a lock.
    pub processes: Vec<Process>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    pub lost: Lost,
    /// The one that was waited for longest comes first.
    pub locks: Vec<Lock>,
}

/// What had no place in the tables.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    pub acquisitions: u64,
    pub call_sites: u64,
    pub holds: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Lock {
    #[serde(with = "hexadecimal")]
    pub address: u64,
    pub kind: Kind,
    /// The variable that it is, or is in; None: it is in allocated memory, or its file has no symbols.
    pub name: Option<String>,
    /// Where a lock without a name was used first, innermost first.
    #[serde(default)]
    pub first_use: Option<Vec<Place>>,
    pub acquisitions: u64,
    pub contended: u64,
    pub contended_share: f64,
    pub failed: u64,
    pub cond_waits: u64,
    /// Of contended acquisitions.
    pub wait: Option<Times>,
    pub hold: Option<Times>,
    pub preempted: Option<Preempted>,
    /// The one with the longest waits comes first; where no thread waited, the one with the most acquisitions.
    pub sites: Vec<Site>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Mutex,
    RwLock,
    ConditionVariable,
    Semaphore,
    Barrier,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Mutex,
        Kind::RwLock,
        Kind::ConditionVariable,
        Kind::Semaphore,
        Kind::Barrier,
    ];

    pub fn text(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "read-write lock",
            Kind::ConditionVariable => "condition variable",
            Kind::Semaphore => "semaphore",
            Kind::Barrier => "barrier",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Kind::Mutex => "mutexes",
            Kind::RwLock => "read-write locks",
            Kind::ConditionVariable => "condition variables",
            Kind::Semaphore => "semaphores",
            Kind::Barrier => "barriers",
        }
    }
}

/// Estimates: some acquisitions are timed, and each stands for several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub total_seconds: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    /// The longest that was timed.
    pub max_us: f64,
}

/// The holder lost its CPU.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Preempted {
    pub count: u64,
    pub seconds: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Site {
    pub acquisitions: u64,
    pub wait_seconds: f64,
    pub hold_seconds: f64,
    pub stack: Vec<Place>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    #[serde(flatten)]
    pub frame: Frame,
    /// The file that the code is in.
    pub module: Option<String>,
    /// The address as the file has it.
    #[serde(with = "hexadecimal", rename = "module_address", default)]
    pub in_module: u64,
}

impl From<Frame> for Place {
    fn from(frame: Frame) -> Place {
        Place {
            frame,
            module: None,
            in_module: 0,
        }
    }
}

impl Place {
    fn is_library(&self) -> bool {
        let symbol = self.frame.symbol.as_deref().unwrap_or_default();
        ["std::", "__gthread", "void std::"]
            .iter()
            .any(|begin| symbol.starts_with(begin))
    }

    /// The function, or the file and the place in it, or the address.
    pub fn name(&self) -> String {
        match (&self.frame.symbol, &self.module) {
            (Some(symbol), _) => symbol.clone(),
            (None, Some(module)) => {
                let file = module.rsplit('/').next().unwrap_or(module);
                format!("{file}+{:#x}", self.in_module)
            }
            (None, None) => self.frame.address.clone(),
        }
    }

    /// With the line of the source, where that is known.
    pub fn text(&self) -> String {
        let file = self
            .frame
            .file
            .as_deref()
            .and_then(|f| f.rsplit('/').next());
        match (file, self.frame.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", self.name()),
            _ => self.name(),
        }
    }
}

impl Lost {
    pub fn any(&self) -> bool {
        [self.acquisitions, self.call_sites, self.holds] != [0; 3]
    }
}

impl Profile {
    /// Leaves out the call sites that matter least.
    pub fn shorten(&mut self) {
        let locks = self.processes.iter_mut().flat_map(|p| &mut p.locks);
        locks.for_each(|lock| lock.sites.truncate(SHOWN_STACKS));
    }
}

impl Lock {
    /// The variable, or the address and where the lock was used first.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| match self.used_at() {
            Some(place) => format!("{:#x}, first used in {place}", self.address),
            None => format!("{:#x}", self.address),
        })
    }

    /// The place of the first use that is the program's own: behind the functions of the C++ library that lock for it.
    pub fn used_at(&self) -> Option<String> {
        let places = self.first_use.as_deref()?;
        let own = places.iter().find(|place| !place.is_library());
        own.or(places.first()).map(Place::text)
    }

    pub fn waited(&self) -> f64 {
        self.wait.as_ref().map_or(0.0, |wait| wait.total_seconds)
    }

    pub fn held(&self) -> f64 {
        self.hold.as_ref().map_or(0.0, |hold| hold.total_seconds)
    }

    /// Each call site's share of the waiting; where no thread waited, of the acquisitions.
    pub fn shares(&self) -> Vec<f64> {
        let of = |site: &Site| match self.wait {
            Some(_) => site.wait_seconds,
            None => site.acquisitions as f64,
        };
        let sum: f64 = self.sites.iter().map(of).sum();
        let share = |site| if sum > 0.0 { of(site) / sum } else { 0.0 };
        self.sites.iter().map(share).collect()
    }
}

impl Site {
    /// Innermost first.
    pub fn text(&self) -> String {
        let places: Vec<String> = self.stack.iter().map(Place::text).collect();
        places.join(" < ")
    }
}

/// An address in JSON, whose numbers are no integers of 64 bits: `0x1f`.
mod hexadecimal {
    use serde::de::{Deserialize, Deserializer, Error};

    pub fn serialize<S: serde::Serializer>(
        address: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{address:#x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        u64::from_str_radix(digits, 16)
            .map_err(|_| D::Error::custom(format!("{text} is no address")))
    }
}

/// A time in the unit that suits it.
pub fn duration(us: f64) -> String {
    match us {
        _ if us < 1e3 => format!("{us:.1} us"),
        _ if us < 1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}
