// SPDX-License-Identifier: MIT
//! The CPU time that samples stand for: what the scheduler has charged their threads. The number of samples tells less:
//! what sleeps until a timer is often woken together with the sampler, and runs in between; and a host takes time from a
//! CPU unseen.

use std::collections::HashMap;
use std::time::Duration;

use flexguard_monitor::{SpinSample, SpinSampler};

/// A thread: its number, and which thread of that number it is.
type Thread = (u32, u64);

#[derive(Default)]
pub struct Clock {
    threads: HashMap<Thread, Charged>,
}

struct Charged {
    /// The CPU time that the thread had had at its first sample.
    first: Duration,
    /// What its samples stand for until now.
    time: Duration,
}

impl Clock {
    /// The samples, in their order, each with its time. Those of a thread share the time that it has had since the call
    /// before. The first sample of a thread stands for a period: so it does for threads that run for less than one, of
    /// which few have a sample.
    pub fn times<'a>(
        &mut self,
        samples: &'a [SpinSample],
    ) -> impl Iterator<Item = (&'a SpinSample, Duration)> + use<'a> {
        let thread = |sample: &SpinSample| (sample.tid, sample.life);
        let mut counts: HashMap<Thread, (u32, Duration)> = HashMap::new();
        for sample in samples {
            let charged = self.threads.entry(thread(sample)).or_insert(Charged {
                first: sample.cpu,
                time: Duration::ZERO,
            });
            let (count, time) = counts.entry(thread(sample)).or_default();
            *count += 1;
            *time = SpinSampler::PERIOD + sample.cpu.saturating_sub(charged.first);
        }
        for (thread, (count, time)) in &mut counts {
            let charged = self.threads.get_mut(thread).expect("each has been entered");
            let new = time.saturating_sub(charged.time);
            charged.time += new;
            *time = new / *count;
        }
        samples
            .iter()
            .map(move |sample| (sample, counts[&thread(sample)].1))
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
        clock.times(samples).map(|(_, time)| time).collect()
    }

    #[test]
    fn a_threads_samples_share_its_time_since_the_call_before() {
        let (ms, mut clock) = (Duration::from_millis, Clock::default());
        let period = SpinSampler::PERIOD;
        let begin = [sample(1, 500), sample(2, 40), sample(1, 500)];
        assert_eq!(times(&mut clock, &begin), [period / 2, period, period / 2]);
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
