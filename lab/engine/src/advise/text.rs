// SPDX-License-Identifier: MIT
//! The advice in words.

use super::judge::{ALIKE, LEAST, Outcome, Ratio, Verdict};
use super::others::Used;
use super::{Advice, Candidate, Counters, Extent, best, ours, suggested};
use crate::words::times;
use flexguard_launch::output;

/// What is said while it measures.
pub fn busy(others: Used) -> String {
    format!(
        "flexguard: {}: more rounds are needed, and the answer holds for a busy machine\n",
        by_others(others)
    )
}

fn by_others(used: Used) -> String {
    let Used { cpus, of } = used;
    format!("other programs used {cpus:.1} of this machine's {of} CPUs")
}

pub fn first_round(seconds: f64, extent: Extent) -> String {
    let then = match extent {
        Extent::Rounds(rounds) => format!("{rounds} rounds were asked for"),
        Extent::Seconds(budget) => format!(
            "an answer takes {LEAST} rounds or more, about {:.0} s, and --budget allows {budget:.0} s",
            seconds * LEAST as f64
        ),
    };
    format!("flexguard: the first round took {seconds:.1} s; {then}\n")
}

pub fn so_far(rounds: usize, seconds: f64, first: Option<&Candidate>) -> String {
    let found = first.and_then(|c| Some(format!("; {}: {}", c.lock, ratio(c.ratio.as_ref()?))));
    let found = found.unwrap_or_default();
    format!("flexguard: {rounds} rounds, {seconds:.0} s{found}\n")
}

/// The factor, with its interval, if there are enough rounds for one.
fn ratio(ratio: &Ratio) -> String {
    let factor = times(ratio.estimate);
    match ratio.is_sound() {
        true => format!("{factor} ({})", interval(ratio)),
        false => factor,
    }
}

fn interval(ratio: &Ratio) -> String {
    format!("{} to {}", times(ratio.low), times(ratio.high))
}

impl Advice {
    pub(super) fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let Some(subject) = self.subject() else {
            return reasons;
        };
        let (lock, ours, glibc) = (&subject.lock, &subject.counters, &self.glibc);
        match (ours.registered_processes, ours.preempted_critical_sections) {
            (Some(0.0), _) => reasons.push(format!(
                "No process registered under {lock}: the program is statically linked, is setuid, or clears \
                 its environment."
            )),
            (_, Some(count)) => reasons.push(format!(
                "A run under {lock} saw {count:.0} critical sections preempted."
            )),
            _ => reasons.push(format!(
                "Preempted critical sections were not counted: the monitor is {}.",
                self.monitor
            )),
        }
        if let (Some(a), Some(b)) = (ours.cpu_seconds, glibc.cpu_seconds) {
            reasons.push(format!(
                "CPU time of a run: {a:.3} s under {lock}, {b:.3} s under glibc's locks."
            ));
        }
        if let (Some(a), Some(b)) = (ours.sleeps_per_second, glibc.sleeps_per_second) {
            reasons.push(format!(
                "Threads slept, on locks or otherwise, {a:.0} times a second under {lock}, {b:.0} under glibc's locks."
            ));
        }
        reasons.extend(self.why_not_the_fastest());
        reasons
    }

    /// A lock that is none of FlexGuard's may be faster.
    fn why_not_the_fastest(&self) -> Option<String> {
        let (_, recommended) = best(&self.locks)?;
        let others = self
            .locks
            .iter()
            .filter(|c| ours(&self.locks).all(|o| o.lock != c.lock));
        let faster = others
            .filter_map(|c| Some((&c.lock, c.ratio.as_ref()?)))
            .find(|(_, ratio)| {
                ratio.verdict() == Verdict::Better && ratio.estimate > recommended.estimate
            })?;
        Some(format!(
            "{} was faster in these runs ({}). It is here for comparison: `flexguard list` says how it waits, and a lock \
             that only spins collapses when threads outnumber CPUs.",
            faster.0,
            times(faster.1.estimate)
        ))
    }

    /// What makes an unknown outcome known.
    pub(super) fn to_do(&self) -> Option<String> {
        let subject = self.subject()?.ratio.as_ref()?;
        let round = self.elapsed_seconds / subject.rounds.max(1) as f64;
        let budget = |rounds: f64| {
            let seconds = (rounds * round * 1.2).max(1.0);
            let digits = 10f64.powf(seconds.log10().floor() - 1.0).max(1.0);
            (seconds / digits).ceil() * digits
        };
        match self.outcome {
            Outcome::CannotTell => Some(format!(
                "To know more: let it measure longer (--budget {:.0} would probably do), leave the machine to it, make its \
                 runs longer, or compare a number that it prints (--score).",
                budget(subject.rounds_to_tell())
            )),
            Outcome::TooFewRounds => Some(format!(
                "It takes {LEAST} rounds or more: give --budget {:.0}, or shorten the program's run.",
                budget(LEAST as f64)
            )),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.headline(), self.table());
        for reason in &self.reasons {
            text.push_str(&format!("{reason}\n"));
        }
        if let Some(used) = self.others.filter(|u| u.is_busy()) {
            text.push_str(&format!(
                "The answer holds for a machine that is as busy: {} meanwhile.\n",
                by_others(used)
            ));
        }
        if let Some(to_do) = &self.to_do {
            text.push_str(&format!("{to_do}\n"));
        }
        if let Some(lock) = &self.recommended {
            text.push_str(&format!(
                "Use it: flexguard run --lock {lock} -- {}\n",
                self.program.join(" ")
            ));
        }
        text.push_str(&self.suggestion());
        if !self.complete {
            text.push_str("INCOMPLETE: some rounds are missing.\n");
        }
        text
    }

    /// What it would set, and why.
    fn suggestion(&self) -> String {
        let Some((tried, ratio)) = suggested(&self.settings) else {
            return String::new();
        };
        let better = match self.measure.as_str() {
            "score" => "the score",
            _ => "as fast",
        };
        let alone = match self.recommended {
            Some(_) => " The lock and the variable were tried apart, not together.",
            None => "",
        };
        format!(
            "The program waits in loops that no lock replaces. Set {setting}: with it, under glibc's locks, it is {} \
             {better} ({}), since under {} {}.{alone} Nothing is set unasked: {setting} {}\n",
            times(ratio.estimate),
            self.rests_on(ratio),
            tried.runtime,
            tried.why,
            self.program.join(" "),
            setting = tried.setting,
        )
    }

    fn table(&self) -> String {
        let value = |counters: &Counters| {
            let of = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.3}"));
            let mut values = vec![of(counters.elapsed_seconds)];
            values.extend((self.measure == "score").then(|| of(counters.score)));
            values
        };
        let mut rows = vec![
            ["glibc's".to_owned()]
                .into_iter()
                .chain(value(&self.glibc))
                .collect(),
        ];
        let locks = (self.locks.iter()).map(|c| (&c.lock, &c.counters, &c.ratio, c.verdict));
        let settings =
            (self.settings.iter()).map(|t| (&t.setting, &t.counters, &t.ratio, t.verdict));
        for (name, counters, ratio, verdict) in locks.chain(settings) {
            let mut row = vec![name.clone()];
            row.extend(value(counters));
            row.extend(columns(ratio.as_ref(), verdict));
            rows.push(row);
        }
        let first = match self.settings.is_empty() {
            true => "locks",
            false => "locks, settings",
        };
        let mut titles = vec![first, "seconds"];
        titles.extend((self.measure == "score").then_some("score"));
        let numbers = 1..titles.len() + 3;
        titles.extend(["against glibc's", "interval", "rounds", ""]);
        rows.iter_mut()
            .for_each(|r: &mut Vec<String>| r.resize(titles.len(), String::new()));
        output::table(&titles, rows, numbers)
    }

    fn headline(&self) -> String {
        let subject = self
            .subject()
            .and_then(|c| Some((&c.lock, c.ratio.as_ref()?)));
        match (self.outcome, subject) {
            (Outcome::Helps, Some((lock, ratio))) => {
                let what = match self.measure.as_str() {
                    "score" => "the score of",
                    _ => "as fast as",
                };
                format!(
                    "FlexGuard helps this program: with {lock} it is {} {what} glibc's locks ({}).",
                    times(ratio.estimate),
                    self.rests_on(ratio)
                )
            }
            (Outcome::Hurts, Some((lock, ratio))) => format!(
                "FlexGuard does not help this program: with {lock} it has {} of the speed under glibc's locks ({}).",
                times(ratio.estimate),
                self.rests_on(ratio)
            ),
            (Outcome::NoDifference, Some((lock, ratio))) => format!(
                "FlexGuard makes no difference to this program: with {lock} it is less than {:.0} % faster or slower than \
                 under glibc's locks ({}).",
                (ALIKE - 1.0) * 100.0,
                self.rests_on(ratio)
            ),
            (Outcome::CannotTell, Some((lock, ratio))) => format!(
                "These runs cannot tell whether FlexGuard helps this program: with {lock} it is {} as fast, or anything \
                 else in the interval ({}).",
                times(ratio.estimate),
                self.rests_on(ratio)
            ),
            (Outcome::TooFewRounds, Some((_, ratio))) => format!(
                "Too few rounds to say whether FlexGuard helps: {} in {:.1} s, and {LEAST} or more are needed.",
                ratio.rounds, self.elapsed_seconds
            ),
            _ => "Nothing can be said: the program did not run under both glibc's locks and FlexGuard."
                .into(),
        }
    }

    fn rests_on(&self, ratio: &Ratio) -> String {
        format!(
            "{:.0} % interval {}, {} rounds in {:.1} s",
            (ratio.confidence * 100.0).floor(),
            interval(ratio),
            ratio.rounds,
            self.elapsed_seconds
        )
    }
}

fn columns(ratio: Option<&Ratio>, verdict: Verdict) -> Vec<String> {
    let Some(ratio) = ratio else {
        return vec!["not measured".into()];
    };
    let verdict = match verdict {
        Verdict::Better => "better than glibc's",
        Verdict::Worse => "worse than glibc's",
        Verdict::Alike => "no difference",
        Verdict::Unclear => "cannot be told",
        Verdict::TooFewRounds => "too few rounds",
    };
    let interval = match ratio.is_sound() {
        true => interval(ratio),
        false => "-".into(),
    };
    vec![
        times(ratio.estimate),
        interval,
        ratio.rounds.to_string(),
        verdict.into(),
    ]
}
