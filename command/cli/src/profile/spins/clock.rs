// SPDX-License-Identifier: MIT
//! The CPU time that samples stand for: what the scheduler has charged their threads. The number of samples tells less:
//! what sleeps until a timer is often woken together with the sampler, and runs in between; and a host takes time from a
//! CPU unseen.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use flexguard_monitor::{SpinSample, SpinSampler};

/// A thread: its number, and which thread of that number it is.
type Thread = (u32, u64);

/// The CPU time that each thread had had at its samples: the most of them.
#[derive(Default)]
pub struct Clock(HashMap<Thread, Duration>);

impl Clock {
    /// What the sample stands for: the time that its thread has had since the sample before. The first sample of a
    /// thread stands for a period: so it does for threads that run for less than one, of which few have a sample.
    pub fn time(&mut self, sample: &SpinSample) -> Duration {
        match self.0.entry((sample.tid, sample.life)) {
            Entry::Vacant(new) => {
                new.insert(sample.cpu);
                SpinSampler::PERIOD
            }
            Entry::Occupied(mut seen) => {
                let time = sample.cpu.saturating_sub(*seen.get());
                *seen.get_mut() += time;
                time
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(life: u64, cpu_ms: u64) -> SpinSample {
        SpinSample {
            pid: 1,
            tid: 1,
            cpu: Duration::from_millis(cpu_ms),
            life,
            ip: 0,
            caller: 0,
            call: None,
            waiting: None,
        }
    }

    fn times(clock: &mut Clock, samples: &[SpinSample]) -> Vec<Duration> {
        samples.iter().map(|sample| clock.time(sample)).collect()
    }

    #[test]
    fn a_sample_stands_for_its_threads_time_since_the_one_before() {
        let (ms, mut clock) = (Duration::from_millis, Clock::default());
        let period = SpinSampler::PERIOD;
        let begin = [sample(1, 500), sample(2, 40), sample(1, 500)];
        assert_eq!(times(&mut clock, &begin), [period, period, ms(0)]);
        let next = [
            sample(1, 504),
            sample(2, 49),
            sample(1, 508),
            sample(1, 512),
        ];
        assert_eq!(times(&mut clock, &next), [ms(4), ms(9), ms(4), ms(4)]);
    }

    #[test]
    fn time_that_a_host_has_taken_is_taken_back() {
        let (ms, mut clock) = (Duration::from_millis, Clock::default());
        times(&mut clock, &[sample(1, 500), sample(1, 520)]);
        assert_eq!(times(&mut clock, &[sample(1, 515)]), [ms(0)]);
        assert_eq!(times(&mut clock, &[sample(1, 523)]), [ms(3)]);
    }
}
