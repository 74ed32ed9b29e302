// SPDX-License-Identifier: MIT
//! `flexguard top`, in a real terminal: tmux.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::daemon::{Daemon, wait_for};
use crate::common::*;

/// A terminal with a shell script in it. Ends with the test: the server has no other session.
struct Terminal {
    server: String,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// Runs `top` there, between two records of the terminal's settings.
    fn start(name: &str, width: u16, height: u16, socket: &str) -> Terminal {
        let folder = tempfile::tempdir().unwrap();
        let server = folder.path().join(name).to_str().unwrap().to_owned();
        let terminal = Terminal { server, folder };
        let at = |file: &str| {
            terminal
                .folder
                .path()
                .join(file)
                .to_str()
                .unwrap()
                .to_owned()
        };
        let (before, after, status) = (at("before"), at("after"), at("status"));
        // The inner shell says which process becomes `top`, so that the test can signal it alone.
        let script = format!(
            "stty -a >{before}; sh -c 'echo $$ >{}; exec {FLEXGUARD} top --interval 0.2 --socket {socket}'
             echo $? >{status}.new; stty -a >{after}; mv {status}.new {status}; sleep 60",
            at("pid")
        );
        let size = [width.to_string(), height.to_string()];
        let output = terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size[0],
            "-y",
            &size[1],
            "sh",
            "-c",
            &script,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        clean(&mut command);
        command
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX");
        command
            .arg("-S")
            .arg(&self.server)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("tmux starts")
    }

    fn ask(&self, format: &str) -> String {
        stdout(&self.tmux(&["display-message", "-p", format]))
            .trim_end()
            .to_owned()
    }

    fn screen(&self) -> String {
        stdout(&self.tmux(&["capture-pane", "-p"]))
    }

    fn press(&self, keys: &[&str]) {
        let output = self.tmux(&[&["send-keys"], keys].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// Waits until the screen shows all of this, and returns it.
    fn wait_until_shown(&self, wanted: &[&str]) -> String {
        wait_for(&format!("{wanted:?}"), || {
            let screen = self.screen();
            wanted
                .iter()
                .all(|text| screen.contains(text))
                .then_some(screen)
        })
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(file))
            .ok()
            .map(|text| text.trim_end().to_owned())
    }

    /// Waits until `top` has ended, and checks that the terminal is as it was.
    fn is_restored(&self) {
        assert_eq!(
            wait_for("the end of top", || self.read("status")),
            "0",
            "{}",
            self.screen()
        );
        assert_eq!(self.read("before"), self.read("after"));
        assert_eq!(
            self.ask("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"),
            "0 1 0"
        );
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if Path::new(&self.server).exists() {
            self.tmux(&["kill-server"]);
        }
    }
}

fn a_filter_hides_and_shows(terminal: &Terminal, pid: &str) {
    terminal.press(&["/", "n", "o", "b", "o", "d", "y"]);
    let screen = terminal.wait_until_shown(&["show only: nobody_"]);
    let programs = screen
        .lines()
        .filter(|line| line.starts_with(pid) && line.contains("flexguard"));
    assert_eq!(programs.count(), 0, "{screen}");
    terminal.press(&["Escape"]);
    terminal.wait_until_shown(&["q quit", pid]);
}

#[test]
fn the_screen_is_right_at_both_sizes_and_follows_the_keys() {
    if !bpf("the_screen_is_right_at_both_sizes_and_follows_the_keys") {
        return;
    }
    let daemon = Daemon::start();
    let worker = daemon.worker("flexguard");
    let pid = worker.pid().to_string();
    let terminal = Terminal::start("t", 80, 24, &daemon.socket);
    let screen =
        terminal.wait_until_shown(&[&pid, "fg-bench-posix", "holder", "preempted/s*", "q quit"]);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].contains(&daemon.socket), "{screen}");
    assert!(
        lines.len() == 24 && lines[23].starts_with(" q quit"),
        "{screen}"
    );
    let row = lines
        .iter()
        .position(|line| line.starts_with(&pid))
        .unwrap();
    assert!(
        lines[row - 1].contains("preempted/s*") && lines[row].contains("fg-bench-posix"),
        "{screen}"
    );
    assert!(!screen.contains("cgroup"), "{screen}");

    terminal.tmux(&["resize-window", "-x", "200", "-y", "60"]);
    // Something has happened in its history.
    let screen = terminal.wait_until_shown(&["cgroup", &pid, "q quit", "█"]);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(
        lines.len() == 60 && lines[59].starts_with(" q quit"),
        "{screen}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with(&pid) && line.contains("fg-bench-posix")),
        "{screen}"
    );

    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.press(&["s"]);
    terminal.wait_until_shown(&["off CPU ms/s*"]);
    a_filter_hides_and_shows(&terminal, &pid);
    terminal.press(&["?"]);
    terminal.wait_until_shown(&[
        "any key closes this",
        "critical sections that lost their CPU",
    ]);
    terminal.press(&["x"]);
    terminal.press(&["p"]);
    terminal.wait_until_shown(&["PAUSED"]);
    drop(worker);
    assert!(terminal.screen().contains(&pid)); // a pause keeps what is shown
    terminal.press(&["p"]);
    wait_for("an empty list", || {
        (!terminal.screen().contains(&pid)).then_some(())
    });
    drop(daemon);
    terminal.wait_until_shown(&["no monitor listens"]);
    terminal.press(&["q"]);
    terminal.is_restored();
}

#[test]
fn the_counters_of_domains_are_shown_at_both_sizes() {
    if !bpf("the_counters_of_domains_are_shown_at_both_sizes") {
        return;
    }
    let daemon = Daemon::with(&["--domains", "user"]);
    let worker = daemon.worker("flexguard");
    let pid = worker.pid().to_string();
    let uid = nix::unistd::Uid::current();
    let domain = format!("user {uid}: ");
    let terminal = Terminal::start("t", 80, 24, &daemon.socket);
    let screen = terminal.wait_until_shown(&[&pid, &format!("domains {domain}"), "q quit"]);
    assert_eq!(screen.lines().count(), 24, "{screen}");

    terminal.tmux(&["resize-window", "-x", "200", "-y", "60"]);
    wait_for("the program's domain", || {
        let screen = terminal.screen();
        let mut rows = screen.lines().filter(|line| line.starts_with(&pid));
        rows.any(|row| row.contains(&domain)).then_some(())
    });
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    drop(worker);
    terminal.wait_until_shown(&["domains none"]);
    terminal.press(&["q"]);
    terminal.is_restored();
}

#[test]
fn every_end_restores_the_terminal() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let terminal = Terminal::start("t", 80, 24, "@flexguard-test-nobody-is-there");
        terminal.wait_until_shown(&["no monitor listens"]);
        assert_eq!(terminal.ask("#{alternate_on}"), "1");
        kill(terminal.read("pid").unwrap().parse().unwrap(), signal);
        terminal.is_restored();
    }
    let terminal = Terminal::start("t", 80, 24, "@flexguard-test-nobody-is-there");
    terminal.wait_until_shown(&["no monitor listens"]);
    terminal.press(&["C-c"]);
    terminal.is_restored();
}

#[test]
fn without_its_terminal_it_ends() {
    let terminal = Terminal::start("t", 80, 24, "@flexguard-test-nobody-is-there");
    terminal.wait_until_shown(&["no monitor listens"]);
    let process = format!("/proc/{}", terminal.read("pid").unwrap());
    assert!(Path::new(&process).exists());
    terminal.tmux(&["kill-server"]);
    wait_for("the end of top", || {
        (!Path::new(&process).exists()).then_some(())
    });
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let output = run(["top"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("flexguard status"),
        "{}",
        stderr(&output)
    );
    assert_eq!(run(["top", "--interval", "0"]).status.code(), Some(2));
}
