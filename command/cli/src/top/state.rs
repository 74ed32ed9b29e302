// SPDX-License-Identifier: MIT
//! What the user has chosen, and what was seen so far.

use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};

use flexguard_monitor::DomainKind;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample::{Row, Sample};
use crate::programs::Preempted;

/// Looks that the sparklines go back at most.
const HISTORY: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Preempted,
    OffCpu,
    Total,
    Pid,
    Command,
}

impl Order {
    const ALL: [Order; 5] = [
        Order::Preempted,
        Order::OffCpu,
        Order::Total,
        Order::Pid,
        Order::Command,
    ];

    fn next(self) -> Order {
        let at = Order::ALL.iter().position(|&order| order == self);
        Order::ALL[(at.unwrap_or(0) + 1) % Order::ALL.len()]
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let by_number = |a: f64, b: f64| b.total_cmp(&a);
        match self {
            Order::Preempted => by_number(a.preempted, b.preempted),
            Order::OffCpu => by_number(a.off_cpu, b.off_cpu),
            Order::Total => b.program.preempted().cmp(&a.program.preempted()),
            Order::Pid => a.program.pid.cmp(&b.program.pid),
            Order::Command => a.program.command.cmp(&b.program.command),
        }
        .then(a.program.pid.cmp(&b.program.pid))
    }
}

#[derive(Debug)]
pub struct State {
    pub order: Order,
    pub reversed: bool,
    /// Only programs whose command, user, lock or number contains it.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub paused: bool,
    pub help: bool,
    /// The first program that is shown.
    pub first: usize,
    pub sample: Sample,
    /// Why there is nothing new.
    pub trouble: Option<String>,
    /// By the look: preempted critical sections a second, and the time in blocking mode in thousandths.
    pub preempted: VecDeque<u64>,
    pub blocking: VecDeque<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Go,
    End,
}

impl State {
    pub fn new() -> State {
        State {
            order: Order::Preempted,
            reversed: false,
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            first: 0,
            sample: Sample::default(),
            trouble: None,
            preempted: VecDeque::new(),
            blocking: VecDeque::new(),
        }
    }

    pub fn take(&mut self, seen: Result<Sample, String>) {
        if self.paused {
            return;
        }
        let sample = match seen {
            Ok(sample) => sample,
            Err(trouble) => {
                self.sample = Sample::default();
                self.trouble = Some(trouble);
                return;
            }
        };
        self.trouble = None;
        for (history, number) in [
            (&mut self.preempted, sample.holders + sample.next_waiters),
            (&mut self.blocking, sample.blocking * 1000.0),
        ] {
            if number.is_nan() {
                continue; // it is not known
            }
            history.push_back(number.round() as u64);
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        self.sample = sample;
        let by_time = |p: &Preempted| std::cmp::Reverse((p.for_ms * 1e3) as u64);
        self.sample.preempted_now.sort_by_key(by_time);
    }

    /// The programs to show, in their order.
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self
            .sample
            .rows
            .iter()
            .filter(|row| self.passes(row))
            .collect();
        rows.sort_by(|a, b| self.order.compare(a, b));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// The preempted threads to show: those of the programs that are shown.
    pub fn preempted_now(&self) -> impl Iterator<Item = &Preempted> {
        let of_shown = |pid| {
            let mut rows = self.sample.rows.iter();
            rows.any(|row| row.program.pid == pid && self.passes(row))
        };
        let all = self.sample.preempted_now.iter();
        all.filter(move |thread| self.filter.is_empty() || of_shown(thread.pid))
    }

    /// The monitor has counters of users or control groups.
    pub fn has_domains(&self) -> bool {
        DomainKind::of_number(self.sample.stats.domain_kind) != DomainKind::Machine
    }

    /// The domains of all programs, with their counters; the greatest first.
    pub fn domains(&self) -> Vec<(&str, u32)> {
        let programs = self.sample.rows.iter().map(|row| &row.program);
        let mut domains: Vec<_> = programs
            .map(|program| (program.domain.as_str(), program.domain_counter))
            .collect();
        domains.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let mut seen = HashSet::new();
        domains.retain(|(name, _)| seen.insert(*name));
        domains
    }

    fn passes(&self, row: &Row) -> bool {
        let program = &row.program;
        let texts = [&program.command, &program.user, &program.lock];
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| text.contains(&self.filter))
            || program.pid.to_string().contains(&self.filter)
    }

    pub fn key(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::End,
            _ if self.typing => self.type_filter(key.code),
            // Any key closes the help.
            _ if self.help => self.help = false,
            KeyCode::Char('q') => return Next::End,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Down => self.first += 1,
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += 10,
            KeyCode::PageUp => self.first = self.first.saturating_sub(10),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        self.first = self.first.min(self.rows().len().saturating_sub(1));
        Next::Go
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::sample::tests::program;
    use super::*;
    use crate::programs::Preemptor;

    pub fn state(programs: &[(u32, &str, f64)]) -> State {
        let mut state = State::new();
        let rows = programs.iter().map(|&(pid, command, preempted)| Row {
            program: program(pid, command, preempted as u64),
            preempted,
            off_cpu: 100.0 - preempted,
        });
        let sample = Sample {
            rows: rows.collect(),
            holders: 40.0,
            blocking: 0.5,
            ..Sample::default()
        };
        state.take(Ok(sample));
        state
    }

    fn press(state: &mut State, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            assert_eq!(state.key(code.into()), Next::Go);
        }
    }

    fn pids(state: &State) -> Vec<u32> {
        state.rows().iter().map(|row| row.program.pid).collect()
    }

    #[test]
    fn programs_are_sorted_and_filtered_as_asked() {
        let mut state = state(&[(1, "zeta", 5.0), (2, "beta", 20.0), (3, "gamma", 10.0)]);
        assert_eq!(pids(&state), [2, 3, 1]);
        press(&mut state, "s"); // by the time off CPU
        assert_eq!(pids(&state), [1, 3, 2]);
        press(&mut state, "sss");
        assert_eq!((state.order, pids(&state)), (Order::Command, vec![2, 3, 1]));
        press(&mut state, "r");
        assert_eq!(pids(&state), [1, 3, 2]);
        press(&mut state, "/et");
        assert_eq!(pids(&state), [1, 2]);
        press(&mut state, "q\n"); // in a filter, q is a letter
        assert_eq!((state.filter.as_str(), pids(&state)), ("etq", vec![]));
        press(&mut state, "\x1b");
        assert_eq!(pids(&state).len(), 3);
        assert_eq!(state.key(KeyCode::Char('q').into()), Next::End);
    }

    #[test]
    fn preempted_threads_are_filtered_as_their_programs() {
        let mut state = state(&[(1, "zeta", 5.0), (2, "beta", 20.0)]);
        let preemptor = Preemptor {
            pid: 3,
            tid: 3,
            command: Some("zeta".into()),
        };
        state.sample.preempted_now = [1, 2, 4]
            .map(|pid| Preempted {
                pid,
                tid: pid,
                role: "holder",
                aged: false,
                for_ms: 1.0,
                command: None,
                preemptor: preemptor.clone(),
            })
            .into();
        let shown = |state: &State| state.preempted_now().map(|p| p.pid).collect::<Vec<_>>();
        assert_eq!(shown(&state), [1, 2, 4]); // also of a program that has gone
        press(&mut state, "/zeta");
        assert_eq!(shown(&state), [1]);
        press(&mut state, "\x1b/nobody");
        assert!(shown(&state).is_empty());
    }

    #[test]
    fn a_pause_keeps_what_is_shown() {
        let mut state = state(&[(1, "a", 5.0)]);
        press(&mut state, "p");
        state.take(Ok(Sample::default()));
        state.take(Err("gone".into()));
        assert_eq!((pids(&state), &state.trouble), (vec![1], &None));
        press(&mut state, "p");
        state.take(Err("gone".into()));
        assert_eq!(
            (pids(&state), state.trouble.as_deref()),
            (vec![], Some("gone"))
        );
    }
}
