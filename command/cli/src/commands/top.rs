// SPDX-License-Identifier: MIT
//! `flexguard top`: live, who is preempted in critical sections, and by whom.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::signals;
use flexguard_monitor::SocketName;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::{Subcommand, monitor};
use crate::manual::{OWN_EXIT, SOCKET_ENVIRONMENT, SOCKET_FILES, Section};
use crate::top::sample::Sampler;
use crate::top::state::{Next, State};
use crate::top::view;

/// From one drawing to the next, where no key is pressed: the screen may have another size.
const REDRAW: Duration = Duration::from_millis(100);

/// Show live which programs are preempted in critical sections, how often, for how long, and by whom
///
/// It needs a terminal, and no privilege. `?` shows the keys. Without a monitor it waits for one.
#[derive(Debug, Args)]
pub struct Top {
    /// The seconds from one look at the monitor to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// The socket of the monitor: a path, or @NAME in the abstract namespace
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    socket: Option<String>,
}

/// Each look costs a user as much as 100 registrations of the 1,000 a second that the monitor allows.
fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give a number from 0.2 to 3600".into()),
    }
}

impl Subcommand for Top {
    const MANUAL: &'static [Section] = &[
        Section {
            title: "KEYS",
            items: &[
                ("s, r", "Sort by the next column; reverse the order."),
                (
                    "/",
                    "Show only programs whose command, user, lock or pid contains a text.",
                ),
                ("p", "Pause, and go on."),
                ("arrows, PgUp, PgDn, Home", "Move through the programs."),
                ("?", "Help."),
                ("q, Ctrl-C", "Quit."),
            ],
        },
        Section {
            title: "EXIT STATUS",
            items: &[
                (
                    "0",
                    "The user or a signal (SIGINT, SIGTERM, SIGHUP) ended it.",
                ),
                OWN_EXIT[0],
                OWN_EXIT[1],
            ],
        },
        SOCKET_ENVIRONMENT,
        SOCKET_FILES,
    ];

    fn run(self) -> Result<Status> {
        let socket = monitor::socket(self.socket.as_deref())?;
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(Failure::new("top needs a terminal")
                .advice("`flexguard status` shows the same once, also to a file"));
        }
        signals::hold()?;
        let terminal = ratatui::try_init().context("cannot set the terminal up")?;
        let terminal = Arc::new(Mutex::new(terminal));
        end_by_signal(terminal.clone());
        let done = self.show(&terminal, &socket);
        // Also after a failure, which is told on the screen that the user has left. A panic restores it by itself.
        let restored = restore(&mut lock(&terminal)).context("cannot restore the terminal");
        done.and(restored).map(|()| Status::Exited(0))
    }
}

/// A signal ends the process whatever the other thread does: crossterm reads on for ever where the terminal has gone.
fn end_by_signal(terminal: Arc<Mutex<DefaultTerminal>>) {
    std::thread::spawn(move || {
        loop {
            let signal = signals::wait(None).map(|signal| signal.number);
            if let Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) = signal {
                // From now on nothing is drawn.
                let mut screen = lock(&terminal);
                let _ = restore(&mut screen); // it may have gone
                std::process::exit(0);
            }
        }
    });
}

fn lock(terminal: &Mutex<DefaultTerminal>) -> MutexGuard<'_, DefaultTerminal> {
    terminal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restore(terminal: &mut DefaultTerminal) -> io::Result<()> {
    terminal.show_cursor()?;
    ratatui::try_restore()
}

/// Whether the user has pressed a key, or the terminal says something else.
fn is_pressed(limit: Duration) -> Result<bool> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).expect("it is at most a second");
    let ready = poll(&mut fds, limit).context("cannot wait for keys")?;
    let events = fds[0].revents().unwrap_or(PollFlags::empty());
    if events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
        return Err(Failure::new("the terminal is gone"));
    }
    Ok(ready > 0)
}

impl Top {
    fn show(&self, terminal: &Mutex<DefaultTerminal>, socket: &SocketName) -> Result<()> {
        let mut state = State::new();
        let mut sampler = Sampler::default();
        let name = socket.to_string();
        let mut look_at = Instant::now();
        loop {
            if Instant::now() >= look_at {
                state.take(sampler.look(socket).map_err(|error| error.told()));
                look_at = Instant::now() + self.interval;
            }
            let mut screen = lock(terminal);
            screen
                .draw(|frame| view::draw(frame, &state, &name))
                .context("cannot draw")?;
            drop(screen);
            let left = look_at
                .saturating_duration_since(Instant::now())
                .min(REDRAW);
            if !is_pressed(left)? {
                continue;
            }
            while event::poll(Duration::ZERO).context("cannot read keys")? {
                if let Event::Key(key) = event::read().context("cannot read keys")?
                    && key.kind != KeyEventKind::Release
                    && state.key(key) == Next::End
                {
                    return Ok(());
                }
            }
        }
    }
}
