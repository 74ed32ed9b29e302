// SPDX-License-Identifier: MIT
//! What the monitor has counted, as OpenMetrics.

use flexguard_monitor::{Listing, Stats};
use nix::time::{ClockId, clock_gettime};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The monitor's answer; None: no monitor answers. And how many programs run without it, as far as this user may see.
pub fn text(answer: Option<(Stats, Listing)>, unwatched: usize) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("flexguard");
    registry.register_collector(Box::new(Answer(answer, unwatched)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Answer(Option<(Stats, Listing)>, usize);

impl Collector for Answer {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Metrics(&mut encoder);
        to.gauge(
            "up",
            "1 if the monitor answers, 0 if programs run without one",
            None,
            i64::from(self.0.is_some()),
        )?;
        to.gauge(
            "unwatched_programs",
            "Programs with a lock of FlexGuard's that run without this monitor; other users' are seen by root alone",
            None,
            self.1 as i64,
        )?;
        let Some((stats, listing)) = &self.0 else {
            return Ok(());
        };
        to.gauges(stats, listing)?;
        to.preemptions(stats)?;
        to.clients(stats)?;
        to.troubles(stats)
    }
}

struct Metrics<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Metrics<'_, '_> {
    fn gauge<N>(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: N) -> fmt::Result
    where
        ConstGauge<N>: EncodeMetric,
    {
        let gauge = ConstGauge::new(value);
        gauge.encode(
            self.0
                .encode_descriptor(name, help, unit, MetricType::Gauge)?,
        )
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(
            self.0
                .encode_descriptor(name, help, None, MetricType::Counter)?,
        )
    }

    fn seconds(&mut self, name: &str, help: &str, ns: u64) -> fmt::Result {
        let counter = ConstCounter::new(ns as f64 / 1e9);
        counter.encode(self.0.encode_descriptor(
            name,
            help,
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?)
    }

    /// A counter for each value of a label.
    fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(&str, u64)],
    ) -> fmt::Result {
        let mut encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for &(value, number) in values {
            let labels = [(label, value)];
            let one: MetricEncoder<'_> = encoder.encode_family(&labels)?;
            ConstCounter::new(number).encode(one)?;
        }
        Ok(())
    }

    fn gauges(&mut self, stats: &Stats, listing: &Listing) -> fmt::Result {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        let oldest = listing.counted.iter().map(|thread| thread.since_ns).min();
        let oldest = oldest.map_or(0.0, |ns| {
            now.saturating_sub(Duration::from_nanos(ns)).as_secs_f64()
        });
        let counter = stats.num_preempted_cs as i64;
        self.gauge(
            "preempted_critical_sections",
            "Critical threads that are runnable but off CPU now",
            None,
            counter,
        )?;
        let help = "For how long the thread of these that has waited longest is off CPU";
        self.gauge("oldest_preemption", help, Some(&Unit::Seconds), oldest)?;
        let programs = listing.processes.len() as i64;
        self.gauge(
            "registered_processes",
            "Processes that the monitor watches now",
            None,
            programs,
        )?;
        self.domains(listing)?;
        let uptime = stats.uptime_ns as f64 / 1e9;
        self.gauge(
            "uptime",
            "Since this monitor was started",
            Some(&Unit::Seconds),
            uptime,
        )
    }

    /// What the programs of each domain poll; of the domains that have programs.
    fn domains(&mut self, listing: &Listing) -> fmt::Result {
        let mut counters = BTreeMap::new();
        for program in &listing.processes {
            counters.insert(program.domain.to_string(), i64::from(program.counter));
        }
        let help = "Those of a domain, which alone make its programs' locks block";
        let name = "domain_preempted_critical_sections";
        let mut encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (domain, counter) in counters {
            let labels = [("domain", domain.as_str())];
            ConstGauge::new(counter).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn preemptions(&mut self, stats: &Stats) -> fmt::Result {
        let by_role = [
            ("holder", stats.preempted_holders),
            ("next_waiter", stats.preempted_next_waiters),
        ];
        self.counters(
            "preemptions",
            "Preempted critical sections, by what the thread has",
            "role",
            &by_role,
        )?;
        let help = "How long preempted critical sections were off CPU";
        let bounds = Stats::DURATIONS_NS
            .iter()
            .map(|&ns| ns as f64 / 1e9)
            .chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(stats.durations).collect();
        let (sum, number) = (
            stats.preempted_ns as f64 / 1e9,
            stats.durations.iter().sum(),
        );
        self.0
            .encode_descriptor(
                "preempted",
                help,
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?
            .encode_histogram::<NoLabelSet>(sum, number, &buckets, None)?;
        let help = "Time for which a critical section was preempted anywhere on the machine";
        self.seconds("blocking", help, stats.blocking_ns)?;
        self.counter(
            "mode_transitions",
            "Changes from spinning to blocking",
            stats.mode_transitions,
        )?;
        self.counter(
            "context_switches",
            "Context switches that the monitor has seen",
            stats.switches,
        )?;
        let help = "Switches that took the CPU from a runnable thread of a registered process";
        self.counter("registered_preemptions", help, stats.registered_preemptions)
    }

    fn clients(&mut self, stats: &Stats) -> fmt::Result {
        let how = [
            ("socket", stats.registered_processes),
            ("fork", stats.inherited_processes),
        ];
        self.counters(
            "registrations",
            "Processes that were registered, by how",
            "how",
            &how,
        )?;
        self.counters(
            "refused_clients",
            "Refused clients, and forks that inherited no registration, by reason",
            "reason",
            &stats.refusals(),
        )?;
        let help = "Programs that run without the monitor because it refused them";
        self.counter("unmonitored_programs", help, stats.unmonitored)
    }

    fn troubles(&mut self, stats: &Stats) -> fmt::Result {
        let help =
            "Critical threads that had no CPU for a second, and are not counted any more for that";
        self.counter("aged_preemptions", help, stats.aged)?;
        let help = "Processes for which no domain was free: they share one with others of their class of users";
        self.counter("processes_without_domain", help, stats.without_domain)?;
        let help = "Preempted critical sections that could not be counted";
        self.counter("missed_preemptions", help, stats.missed)?;
        self.counter(
            "lost_records",
            "Records for which the kernel had no memory",
            stats.lost_records,
        )?;
        let help = "Switches at which a thread block was not in memory";
        self.counter("unreadable_switches", help, stats.unreadable)?;
        let help = "Switches at which the kernel did not run the monitor's program, since it was running already";
        self.counter("recursion_misses", help, stats.recursion_misses)?;
        if stats.cpu_ns > 0 {
            let help = "CPU time of the monitor's process";
            self.seconds("monitor_cpu", help, stats.cpu_ns)?;
        }
        if stats.run_count == 0 {
            return Ok(()); // the kernel does not keep them
        }
        self.seconds(
            "program",
            "Time in the monitor's program on sched_switch",
            stats.run_time_ns,
        )?;
        self.counter(
            "program_runs",
            "Runs of it while the time was kept",
            stats.run_count,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_is_cumulative_and_ends_with_all() {
        let mut stats = Stats {
            preempted_ns: 1_500_000_000,
            too_many_programs: 4,
            unmonitored: 5,
            cpu_ns: 250_000_000,
            ..Stats::default()
        };
        stats.durations[0] = 2;
        stats.durations[1] = 3;
        stats.durations[15] = 1;
        let text = text(Some((stats, Listing::default())), 3).unwrap();
        for line in [
            "flexguard_preempted_seconds_sum 1.5",
            "flexguard_preempted_seconds_count 6",
            "flexguard_preempted_seconds_bucket{le=\"0.000016384\"} 2",
            "flexguard_preempted_seconds_bucket{le=\"0.000032768\"} 5",
            "flexguard_preempted_seconds_bucket{le=\"+Inf\"} 6",
            "flexguard_refused_clients_total{reason=\"too_slow\"} 0",
            "flexguard_refused_clients_total{reason=\"too_many_programs\"} 4",
            "flexguard_unmonitored_programs_total 5",
            "flexguard_up 1",
            "flexguard_unwatched_programs 3",
            "flexguard_monitor_cpu_seconds_total 0.25",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(
            !text.contains("flexguard_program_seconds"),
            "it is not known"
        );
    }
}
