// SPDX-License-Identifier: MIT
//! The screen. Bold and reverse only: it is readable on every terminal, and without colours.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row as TableRow, Sparkline, Table};

use super::sample::Row;
use super::state::{Order, State};
use crate::programs::{PREEMPTED_HEADINGS, duration, shown};

const HELP: &str = "\
s       sort by the next column (its title is marked with a *)
r       reverse the order
/       show only programs whose command, user, lock or pid contains
        what you type; Enter keeps it, Esc shows all again
p       pause, and go on
arrows  move through the programs; PgUp, PgDn, Home, too
q       quit

preempted/s   critical sections that lost their CPU
off CPU ms/s  how long they waited for it, all threads together
not watched   programs with a lock of FlexGuard's that run without
              this monitor, of other users' for root alone
blocking      part of the time in which a critical section was
              preempted anywhere on the machine
domains       the counters that programs go by, and their numbers now:
              their locks block while it is above 0
";

pub fn draw(frame: &mut Frame, state: &State, socket: &str) {
    let height = frame.area().height;
    let history = if height >= 40 { 5 } else { 2 };
    let holders = (height / 4).max(3);
    let [title, numbers, sparklines, programs, preempted, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(if state.has_domains() { 3 } else { 2 }),
        Constraint::Length(history + 1),
        Constraint::Min(3),
        Constraint::Length(holders),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(state, socket), title);
    frame.render_widget(numbers_of(state), numbers);
    draw_history(frame, sparklines, state);
    draw_programs(frame, programs, state);
    draw_preempted(frame, preempted, state);
    frame.render_widget(keys_line(state), keys);
    if state.help {
        draw_help(frame);
    }
}

fn title_line<'a>(state: &State, socket: &str) -> Line<'a> {
    let up = duration(state.sample.stats.uptime_ns as f64 / 1e9);
    let text = match (&state.trouble, state.paused) {
        (Some(trouble), _) => format!(" flexguard top: {trouble}"),
        (None, true) => format!(" flexguard top: {socket}, PAUSED"),
        (None, false) => format!(
            " flexguard top: {socket}, running for {up} on {} % of a CPU",
            number(state.sample.cpus * 100.0, 1)
        ),
    };
    Line::from(text).bold().reversed()
}

/// With so many digits behind the point; `-`: it is not known.
fn number(number: f64, digits: usize) -> String {
    match number.is_nan() {
        true => "-".into(),
        false => format!("{number:.digits$}"),
    }
}

fn numbers_of<'a>(state: &State) -> Paragraph<'a> {
    let sample = &state.sample;
    if state.trouble.is_some() {
        let unknown = [
            "preempted now -   blocking -   mode transitions/s -",
            "preempted/s -   programs -   not watched -   refused -",
        ];
        return Paragraph::new(unknown.map(Line::from).to_vec());
    }
    let mut lines = vec![
        Line::from(format!(
            "preempted now {}   blocking {} % of the time   mode transitions/s {}",
            sample.stats.num_preempted_cs,
            number(sample.blocking * 100.0, 1),
            number(sample.transitions, 0)
        )),
        Line::from(format!(
            "preempted/s {} holders, {} next waiters   programs {}   not watched {}   refused {}",
            number(sample.holders, 0),
            number(sample.next_waiters, 0),
            sample.rows.len(),
            sample.unwatched,
            sample.stats.rejected_registrations
        )),
    ];
    if state.has_domains() {
        let domains = state.domains().into_iter();
        let texts: Vec<_> = domains
            .map(|(name, now)| format!("{name}: {now}"))
            .collect();
        let text = if texts.is_empty() {
            "none".to_owned()
        } else {
            texts.join("   ")
        };
        lines.push(Line::from(format!("domains {text}")));
    }
    Paragraph::new(lines)
}

fn draw_history(frame: &mut Frame, area: Rect, state: &State) {
    let halves = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Fill(1),
    ]);
    let [left, _, right] = halves.areas(area);
    let most = state.preempted.iter().max().copied().unwrap_or(0);
    let title = format!("preempted/s, at most {most}");
    draw_sparkline(frame, left, title, &state.preempted, most.max(1));
    draw_sparkline(
        frame,
        right,
        "blocking, of 100 %".into(),
        &state.blocking,
        1000,
    );
}

fn draw_sparkline(
    frame: &mut Frame,
    area: Rect,
    title: String,
    history: &VecDeque<u64>,
    most: u64,
) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let width = below.width as usize;
    // The newest is at the right.
    let known = history.iter().rev().take(width).rev().copied();
    let data: Vec<u64> = std::iter::repeat_n(0, width.saturating_sub(history.len()))
        .chain(known)
        .collect();
    frame.render_widget(Line::from(title).bold(), above);
    frame.render_widget(Sparkline::default().data(data).max(most), below);
}

/// A column of the programs: its title, the order that it stands for, its width, from which width of the screen on it is
/// there, and what it shows. That of the domain is there only if domains are in use.
struct Column {
    title: &'static str,
    order: Option<Order>,
    width: Constraint,
    from: u16,
    text: fn(&Row) -> String,
}

const fn column(
    title: &'static str,
    order: Option<Order>,
    width: Constraint,
    from: u16,
    text: fn(&Row) -> String,
) -> Column {
    Column {
        title,
        order,
        width,
        from,
        text,
    }
}

const DOMAIN: &str = "domain";
const COLUMNS: [Column; 10] = {
    use Constraint::{Fill, Length, Min, Percentage};
    [
        column("pid", Some(Order::Pid), Length(7), 0, |row| {
            row.program.pid.to_string()
        }),
        column(
            "preempted/s",
            Some(Order::Preempted),
            Length(12),
            0,
            |row| number(row.preempted, 1),
        ),
        column("off CPU ms/s", Some(Order::OffCpu), Length(13), 0, |row| {
            number(row.off_cpu, 2)
        }),
        column("total", Some(Order::Total), Length(8), 0, |row| {
            row.program.preempted().to_string()
        }),
        column("threads", None, Length(7), 100, |row| {
            shown(&row.program.threads)
        }),
        column("user", None, Length(8), 0, |row| row.program.user()),
        column("lock", None, Percentage(12), 0, |row| {
            shown(&row.program.lock)
        }),
        column("command", Some(Order::Command), Min(8), 0, |row| {
            shown(&row.program.command)
        }),
        column(DOMAIN, None, Length(20), 120, |row| {
            format!("{}: {}", row.program.domain, row.program.domain_counter)
        }),
        column("cgroup", None, Fill(2), 120, |row| {
            shown(&row.program.cgroup)
        }),
    ]
};

fn draw_programs(frame: &mut Frame, area: Rect, state: &State) {
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| column.from <= area.width)
        .filter(|column| column.title != DOMAIN || state.has_domains())
        .collect();
    let titles = columns.iter().map(|column| match column.order {
        Some(order) if order == state.order => format!("{}*", column.title),
        _ => column.title.to_owned(),
    });
    let titles = TableRow::new(titles).style(Style::new().bold().underlined());
    let rows = state.rows().into_iter().skip(state.first);
    let rows = rows.map(|row| TableRow::new(columns.iter().map(|column| (column.text)(row))));
    let widths = columns.iter().map(|column| column.width);
    frame.render_widget(Table::new(rows, widths).header(titles), area);
}

fn draw_preempted(frame: &mut Frame, area: Rect, state: &State) {
    let widths = [8, 8, 9, 17, 16].map(Constraint::Length).into_iter();
    let rows = state
        .preempted_now()
        .map(|preempted| TableRow::new(preempted.row()));
    let table = Table::new(rows, widths.chain([Constraint::Min(16)]))
        .header(TableRow::new(PREEMPTED_HEADINGS).style(Style::new().bold().underlined()));
    frame.render_widget(table, area);
}

fn keys_line<'a>(state: &State) -> Line<'a> {
    let text = if state.typing {
        format!(" show only: {}_   Enter keep, Esc show all", state.filter)
    } else if state.filter.is_empty() {
        " q quit  s sort  r reverse  / filter  p pause  ? help".to_owned()
    } else {
        format!(
            " q quit  s sort  r reverse  p pause  ? help  Esc show all, not only: {}",
            state.filter
        )
    };
    Line::from(text).reversed()
}

fn draw_help(frame: &mut Frame) {
    let lines = HELP.lines().count() as u16 + 2;
    let width = HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4;
    let area = frame
        .area()
        .centered(Constraint::Length(width), Constraint::Length(lines));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" Keys and columns: any key closes this ");
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}

#[cfg(test)]
mod tests {
    use flexguard_monitor::DomainKind;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::tests::state;
    use super::*;
    use crate::programs::{Preempted, Preemptor};

    fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, "@test")).unwrap();
        let cells = terminal.backend().buffer().content().chunks(width as usize);
        cells
            .map(|row| row.iter().map(|cell| cell.symbol()).collect())
            .collect()
    }

    #[test]
    fn every_size_is_drawn_and_the_usual_ones_in_full() {
        let mut state = state(&[(123, "kccachetest", 40.0), (124, "other", 1.0)]);
        for help in [false, true] {
            state.help = help;
            for (width, height) in [(1, 1), (20, 5), (79, 23), (300, 100)] {
                screen(&state, width, height);
            }
        }
        state.help = false;
        for (width, height, group) in [(80, 24, false), (200, 60, true)] {
            let lines = screen(&state, width, height);
            assert!(lines[0].contains("@test"), "{lines:#?}");
            let first = lines
                .iter()
                .position(|line| line.contains("kccachetest"))
                .unwrap();
            assert!(lines[first - 1].contains("preempted/s*"), "{lines:#?}");
            assert!(lines[first + 1].contains("other"), "{lines:#?}");
            assert_eq!(lines[first].contains("/system.slice"), group);
            assert!(lines.last().unwrap().contains("? help"), "{lines:#?}");
        }
    }

    #[test]
    fn what_is_not_known_yet_is_no_zero() {
        let mut state = state(&[(1, "a", 3.0)]);
        let sample = &mut state.sample;
        (sample.holders, sample.next_waiters, sample.unwatched) = (f64::NAN, f64::NAN, 2);
        (sample.blocking, sample.transitions, sample.cpus) = (f64::NAN, f64::NAN, f64::NAN);
        (sample.rows[0].preempted, sample.rows[0].off_cpu) = (f64::NAN, f64::NAN);
        let lines = screen(&state, 80, 24);
        assert!(lines[0].contains(" on - % of a CPU"), "{lines:#?}");
        assert!(lines[1].contains("blocking - % of the time   mode transitions/s -"));
        let numbers =
            "preempted/s - holders, - next waiters   programs 1   not watched 2   refused 0";
        assert!(lines[2].starts_with(numbers), "{lines:#?}");
        let row = lines.iter().find(|line| line.starts_with("1 ")).unwrap();
        assert_eq!(row.split_whitespace().nth(1), Some("-"), "{row}");
        let known = state.preempted.len();
        state.take(Ok(state.sample.clone()));
        assert_eq!(
            state.preempted.len(),
            known,
            "the history has what is known alone"
        );
    }

    #[test]
    fn domains_in_use_are_shown_with_their_counters() {
        let mut state = state(&[(1, "a", 3.0), (2, "b", 2.0), (3, "c", 1.0)]);
        for (row, (domain, counter)) in
            state
                .sample
                .rows
                .iter_mut()
                .zip([("user 1000", 2), ("user 0", 7), ("user 1000", 2)])
        {
            (row.program.domain, row.program.domain_counter) = (domain.into(), counter);
        }
        for (kind, used) in [(0, false), (1, true)] {
            assert_eq!(DomainKind::of_number(kind) != DomainKind::Machine, used);
            state.sample.stats.domain_kind = kind;
            for (width, height) in [(80, 24), (200, 60)] {
                let lines = screen(&state, width, height);
                let all = "domains user 0: 7   user 1000: 2 ";
                assert_eq!(lines[3].starts_with(all), used, "{lines:#?}");
                let row = lines.iter().find(|line| line.starts_with("3 ")).unwrap();
                let has_column = row.contains("user 1000: 2");
                assert_eq!(has_column, used && width == 200, "{lines:#?}");
            }
        }
    }

    #[test]
    fn what_others_have_named_is_spelled_out() {
        let (name, spelled) = ("\x1b[31m\u{202e}", "\\u001b[31m\\u202e");
        let named = || Some(name.to_owned());
        let mut state = state(&[(1, name, 3.0)]);
        let program = &mut state.sample.rows[0].program;
        (program.user, program.lock, program.cgroup) = (named(), named(), named());
        let preemptor = Preemptor {
            pid: 2,
            tid: 2,
            command: named(),
        };
        state.sample.preempted_now = vec![Preempted {
            pid: 1,
            tid: 1,
            role: "holder",
            aged: false,
            for_ms: 1.0,
            command: named(),
            preemptor,
        }];
        let text = screen(&state, 300, 60).join("\n");
        // The user's has no place for all of it.
        assert_eq!(text.matches(spelled).count(), 5, "{text}");
        assert_eq!(text.matches("\\u001b").count(), 6, "{text}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }

    #[test]
    fn the_help_fits_the_smallest_terminal() {
        let mut state = state(&[]);
        state.help = true;
        let text = screen(&state, 80, 24).join("\n");
        for line in HELP.lines() {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
