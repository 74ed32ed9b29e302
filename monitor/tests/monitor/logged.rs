// SPDX-License-Identifier: MIT
//! What hostile clients meet: a refusal, and a line in the log that names the process and its user.

use std::io::{self, Read, Write};
use std::sync::{Mutex, Once, PoisonError};

use flexguard_abi::{FG_MAX_WINDOWS, fg_window};
use nix::errno::Errno;

use crate::harness::{AN_OFFSET, Running, connect, is_root, registration, reply, start};
use crate::privileges::{NOBODY, become_nobody};
use crate::victim::say;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the monitors of this process log from now on, at RUST_LOG=debug, can be asked for.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_writer(|| ToLog)
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .init();
    });
}

/// The monitor writes the line before it answers, so that it is there when the client has its answer.
pub fn assert_refusal_logged(pid: i32, uid: u32, errno: Errno) {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let log = String::from_utf8_lossy(&log);
    let line = format!("refused a client errno={errno} pid={pid} uid={uid}");
    assert!(log.lines().any(|l| l.ends_with(&line)), "{line}\n{log}");
}

/// How many lines of the log say that.
pub fn times_logged(what: &str) -> usize {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let log = String::from_utf8_lossy(&log);
    log.lines().filter(|line| line.contains(what)).count()
}

/// How many clients of `others` were refused with this number while the last one of `me` that was, waited for its turn.
/// Both are pid and user.
pub fn refused_before(errno: Errno, me: (i32, u32), others: (i32, u32)) -> usize {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    fn says(line: &str, what: &str, (pid, uid): (i32, u32)) -> bool {
        line.ends_with(&format!("{what} pid={pid} uid={uid}"))
    }
    let refusal = format!("refused a client errno={errno}");
    let mine = lines.iter().rposition(|line| says(line, &refusal, me));
    let mine = mine.expect("it is logged");
    let waits = "a client waits for its turn";
    let began = lines[..mine].iter().rposition(|line| says(line, waits, me));
    let since = &lines[began.expect("it is logged")..mine];
    since
        .iter()
        .filter(|line| says(line, &refusal, others))
        .count()
}

/// Nobody sends one message.
pub fn play_send(socket: &str, kind: &str) {
    become_nobody();
    let window = |begin, end| fg_window {
        begin,
        end,
        ..Default::default()
    };
    let all = 0x7fff_ffff_f000;
    let small = window(0x1000, 0x1100);
    let message = match kind {
        "offset-of-the-other-side" => registration(-AN_OFFSET, &[]),
        "offset-far-below" => registration(i64::MIN, &[]),
        "offset-of-the-kernel" => registration(0xffff_8880_0000_0000_u64 as i64, &[]),
        "window-over-everything" => registration(AN_OFFSET, &[window(1, all)]),
        "window-of-the-kernel" => registration(AN_OFFSET, &[window(!0 - 4096, !0)]),
        "table-too-long" => registration(AN_OFFSET, &vec![small; FG_MAX_WINDOWS as usize + 1]),
        "no-message" => b"neither magic nor version".to_vec(),
        _ => panic!("no such message: {kind}"),
    };
    let mut stream = connect(socket);
    // Refused by its first words, it may be hung up before all of it is said.
    let _ = stream.write_all(&message);
    say(&reply(&mut stream).status.to_string());
    let _ = stream.read(&mut [0]);
}

fn assert_refused(running: &Running, kind: &str, errno: Errno) {
    let mut helper = running.helper(&format!("send {kind}"));
    assert_eq!(helper.hear().parse(), Ok(errno as i32), "{kind}");
    assert_refusal_logged(helper.pid(), NOBODY, errno);
}

#[test]
fn the_log_names_process_and_user_of_who_sends_nonsense() {
    listen();
    let Some(running) = start() else { return };
    if !is_root() {
        return; // nobody to become
    }
    for (kind, errno) in [
        ("offset-of-the-other-side", Errno::ENOEXEC),
        ("offset-far-below", Errno::EINVAL),
        ("offset-of-the-kernel", Errno::EINVAL),
        ("window-over-everything", Errno::EINVAL),
        ("window-of-the-kernel", Errno::EINVAL),
        ("table-too-long", Errno::ENOSPC),
        ("no-message", Errno::EPROTO),
    ] {
        assert_refused(&running, kind, errno);
    }
    assert_eq!(running.stats().registered_processes, 0);
    assert_eq!(running.status_of(&registration(AN_OFFSET, &[])), 0);
}
