// SPDX-License-Identifier: MIT
//! What a profile under glibc's locks tells about whether another lock can help, in sentences.

use super::{Lock, Profile, duration};

/// Of the run's time: threads that wait for less hardly wait.
const HARDLY: f64 = 0.01;

pub fn reasons(profile: &Profile) -> Vec<String> {
    let locks: Vec<&Lock> = profile.processes.iter().flat_map(|p| &p.locks).collect();
    let acquisitions: u64 = locks.iter().map(|l| l.acquisitions).sum();
    if acquisitions == 0 {
        return vec!["The profiler saw no mutex being locked.".into()];
    }
    let contended: u64 = locks.iter().map(|l| l.contended).sum();
    let waited: f64 = locks.iter().map(|l| l.waited()).sum();
    let elapsed = profile.elapsed_seconds;
    let mut reasons = vec![format!(
        "In one more run, under glibc's locks and with the profiler, mutexes were locked {:.0} times a second, {:.1} % of \
         them while another thread held them; threads waited {waited:.3} s for them, in a run of {elapsed:.3} s.",
        acquisitions as f64 / elapsed,
        contended as f64 / acquisitions as f64 * 100.0,
    )];
    let longest = locks
        .iter()
        .max_by(|a, b| a.waited().total_cmp(&b.waited()));
    match longest {
        Some(lock) if waited > HARDLY * elapsed => reasons.push(about(lock, waited)),
        _ => reasons.push("Waiting for mutexes is not what its time goes to.".into()),
    }
    reasons
}

/// The mutex that is waited for longest.
fn about(lock: &Lock, waited: f64) -> String {
    let mut text = format!(
        "One mutex has {:.0} % of the waiting",
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
            place.text()
        );
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::super::{Process, SCHEMA, Times};
    use super::*;

    fn lock(acquisitions: u64, contended: u64, waited: f64) -> Lock {
        let times = |total_seconds| Times {
            total_seconds,
            p50_us: 2.0,
            p90_us: 3.0,
            p99_us: 40.0,
            max_us: 50.0,
        };
        Lock {
            address: 16,
            acquisitions,
            contended,
            contended_share: 0.0,
            failed: 0,
            cond_waits: 0,
            wait: (contended > 0).then(|| times(waited)),
            hold: Some(times(1.0)),
            preempted: None,
            sites: vec![],
        }
    }

    fn told(locks: Vec<Lock>) -> String {
        reasons(&Profile {
            schema: SCHEMA,
            version: "",
            command: vec![],
            lock: "posix".into(),
            elapsed_seconds: 2.0,
            preemptions_unknown: None,
            processes: vec![Process {
                locks,
                ..Process::default()
            }],
        })
        .join(" ")
    }

    #[test]
    fn the_mutex_that_is_waited_for_is_described() {
        let text = told(vec![
            lock(1000, 0, 0.0),
            lock(3000, 1000, 3.0),
            lock(0, 1, 1.0),
        ]);
        for words in [
            "locked 2000 times a second, 25.0 % of",
            "threads waited 4.000 s",
            "in a run of 2.000 s",
            "One mutex has 75 % of the waiting; it is held for 2.0 us (median), 40.0 us (99th percentile).",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_program_that_hardly_waits_is_told_so() {
        assert!(told(vec![lock(1000, 1, 0.001)]).contains("not what its time goes to"));
        assert_eq!(told(vec![]), "The profiler saw no mutex being locked.");
    }
}
