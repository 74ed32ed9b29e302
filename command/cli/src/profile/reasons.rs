// SPDX-License-Identifier: MIT
//! What a profile under glibc's locks tells about whether another lock can help, in sentences that agree with what was
//! measured.

use flexguard_bench::advise::Outcome;
use flexguard_launch::output;

use super::record::{Kind, Lock, Profile, duration};

/// Of the run's time: threads that wait for less hardly wait.
const HARDLY: f64 = 0.01;

pub fn reasons(profile: &Profile, outcome: Outcome) -> Vec<String> {
    let locks: Vec<&Lock> = profile.processes.iter().flat_map(|p| &p.locks).collect();
    if locks.is_empty() {
        return vec!["The profiler saw no lock being used.".into()];
    }
    let elapsed = profile.elapsed_seconds;
    let mut reasons = vec![format!(
        "In one more run, of {elapsed:.3} s under glibc's locks and with the profiler, all threads together:"
    )];
    let of_kind = |kind| {
        let of: Vec<&Lock> = locks.iter().copied().filter(|l| l.kind == kind).collect();
        used(kind, &of, elapsed)
    };
    reasons.extend(Kind::ALL.into_iter().filter_map(of_kind));
    let waited: f64 = locks.iter().map(|l| l.waited()).sum();
    let longest = locks
        .iter()
        .max_by(|a, b| a.waited().total_cmp(&b.waited()));
    match longest {
        Some(lock) if waited > HARDLY * elapsed => {
            reasons.push(about(lock, waited));
            reasons.extend(agreeing(lock.kind, outcome));
        }
        _ => reasons.push(hardly(outcome).into()),
    }
    reasons
}

/// What threads did with the locks of a kind. None: there are none.
fn used(kind: Kind, locks: &[&Lock], elapsed: f64) -> Option<String> {
    let sum = |of: fn(&Lock) -> u64| locks.iter().map(|l| of(l)).sum::<u64>();
    let (acquisitions, contended) = (sum(|l| l.acquisitions), sum(|l| l.contended));
    let waited: f64 = locks.iter().map(|l| l.waited()).sum();
    if locks.is_empty() {
        return None;
    }
    let a_second = acquisitions as f64 / elapsed;
    Some(match kind {
        Kind::Mutex | Kind::RwLock => format!(
            "- {} were locked {a_second:.0} times a second, {:.1} % of them while another thread held them; the waits add up \
             to {waited:.3} s.",
            kind.plural(),
            contended as f64 / acquisitions.max(1) as f64 * 100.0,
        ),
        _ => format!(
            "- {} were waited for {a_second:.0} times a second; the waits, for work as well, add up to {waited:.3} s.",
            kind.plural()
        ),
    })
}

/// The lock that is waited for longest.
fn about(lock: &Lock, waited: f64) -> String {
    let mut text = format!(
        "One {}{} has {:.0} % of the waiting",
        lock.kind.text(),
        lock.name
            .as_ref()
            .map(|n| format!(", {},", output::foreign(n)))
            .unwrap_or_default(),
        lock.waited() / waited * 100.0
    );
    if let Some(hold) = &lock.hold {
        let [p50, p99] = [hold.p50_us, hold.p99_us].map(duration);
        text += &format!("; it is held for {p50} (median), {p99} (99th percentile)");
    }
    if let Some((site, share)) = lock.sites.iter().zip(lock.shares()).next()
        && let Some(place) = site.stack.first()
    {
        text += &format!(
            "; {:.0} % of the waits for it are in {}",
            share * 100.0,
            output::foreign(&place.text())
        );
    }
    text + "."
}

/// How the waiting explains the outcome, where it does.
fn agreeing(kind: Kind, outcome: Outcome) -> Option<String> {
    let kind = kind.plural();
    Some(match outcome {
        Outcome::Helps => {
            format!("FlexGuard makes such waits shorter: its {kind} hand over with fewer sleeps.")
        }
        Outcome::Hurts => format!("FlexGuard's {kind} suit this way of waiting less than glibc's."),
        Outcome::NoDifference => {
            "These waits are for work, for time or for other threads: another lock does not make them shorter.".into()
        }
        _ => return None,
    })
}

fn hardly(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Helps => {
            "It hardly waits for locks: what is gained is gained without waits, where locks are taken and given back."
        }
        Outcome::Hurts => {
            "It hardly waits for locks: what is lost is lost where locks are taken and given back, or as the program starts."
        }
        _ => "It hardly waits for locks, so that no lock can make it much faster.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Process, SCHEMA, Times};
    use super::*;

    fn lock(kind: Kind, acquisitions: u64, contended: u64, waited: f64) -> Lock {
        let times = |total_seconds| Times {
            total_seconds,
            p50_us: 2.0,
            p90_us: 3.0,
            p99_us: 40.0,
            max_us: 50.0,
        };
        Lock {
            address: 16,
            kind,
            name: None,
            first_use: None,
            acquisitions,
            contended,
            contended_share: 0.0,
            failed: 0,
            cond_waits: 0,
            wait: (contended > 0).then(|| times(waited)),
            hold: (kind == Kind::Mutex).then(|| times(1.0)),
            preempted: None,
            sites: vec![],
        }
    }

    fn told(locks: Vec<Lock>, outcome: Outcome) -> String {
        let process = Process {
            locks,
            ..Process::default()
        };
        let profile = Profile {
            schema: SCHEMA.into(),
            version: String::new(),
            command: vec![],
            lock: "posix".into(),
            elapsed_seconds: 2.0,
            preemptions_unknown: None,
            processes: vec![process],
        };
        reasons(&profile, outcome).join(" ")
    }

    #[test]
    fn the_mutex_that_is_waited_for_is_described() {
        let locks = vec![
            lock(Kind::Mutex, 1000, 0, 0.0),
            lock(Kind::Mutex, 3000, 1000, 3.0),
            lock(Kind::Mutex, 0, 1, 1.0),
        ];
        let text = told(locks, Outcome::Helps);
        for words in [
            "of 2.000 s under glibc's locks",
            "all threads together",
            "locked 2000 times a second, 25.0 % of",
            "the waits add up to 4.000 s",
            "One mutex has 75 % of the waiting; it is held for 2.0 us (median), 40.0 us (99th percentile).",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_name_stays_in_its_line() {
        let mut named = lock(Kind::Mutex, 1000, 900, 3.0);
        named.name = Some("a\nb".into());
        let text = told(vec![named], Outcome::Helps);
        assert!(text.contains("One mutex, a\\u000ab, has 100 %"), "{text}");
    }

    /// What the program waits for is a reason, whatever it is, and the reasons do not contradict the outcome.
    #[test]
    fn every_kind_of_lock_is_a_reason() {
        for kind in Kind::ALL {
            let of = |outcome| told(vec![lock(kind, 1000, 900, 3.0)], outcome);
            let text = of(Outcome::Helps);
            let words = format!("One {} has 100 % of the waiting", kind.text());
            assert!(text.contains(&words), "{text}");
            assert!(text.contains("makes such waits shorter"), "{text}");
            assert!(!text.contains("hardly"), "{text}");
            assert!(!of(Outcome::NoDifference).contains("makes such waits shorter"));
        }
    }

    #[test]
    fn a_program_that_hardly_waits_is_told_so() {
        let few = || vec![lock(Kind::Mutex, 1000, 1, 0.001)];
        assert!(told(few(), Outcome::NoDifference).contains("no lock can make it much faster"));
        assert!(!told(few(), Outcome::Helps).contains("no lock can"));
        assert_eq!(
            told(vec![], Outcome::Helps),
            "The profiler saw no lock being used."
        );
    }
}
