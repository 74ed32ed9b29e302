// SPDX-License-Identifier: MIT
//! What the socket answers to good, bad and hostile clients.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::*;
use flexguard_monitor::{Error, Options, SocketName, Stats};

use crate::fair::while_served;
use crate::harness::{
    AN_OFFSET, ask_for_list, load, register, registration, reply, start, start_with, timeout,
};
use crate::victim::block_offset;

fn window() -> fg_window {
    fg_window {
        begin: 0x1000,
        end: 0x1010,
        ..Default::default()
    }
}

/// The message with one 32-bit word of it replaced.
fn with_word(mut message: Vec<u8>, index: usize, word: u32) -> Vec<u8> {
    message[4 * index..][..4].copy_from_slice(&word.to_le_bytes());
    message
}

#[test]
fn bad_messages_are_refused_with_the_reason_and_good_ones_still_served() {
    let Some(running) = start() else { return };
    let good = registration(AN_OFFSET, &[window()]);
    let too_many = registration(AN_OFFSET, &[window(); FG_MAX_WINDOWS as usize + 1]);
    let oversized = [good.clone(), vec![0; 8]].concat();
    let cases = [
        ("garbage", b"GET / HTTP/1.1\r\n\r\n".to_vec(), libc::EPROTO),
        ("a long garbage", vec![0xa5; 1 << 16], libc::EPROTO),
        (
            "another version",
            with_word(good.clone(), 1, FG_ABI_VERSION + 1),
            libc::EPROTONOSUPPORT,
        ),
        ("a wrong size", with_word(good.clone(), 2, 71), libc::EINVAL),
        (
            "a huge size",
            with_word(good.clone(), 2, u32::MAX),
            libc::EINVAL,
        ),
        (
            "an unaligned offset",
            registration(AN_OFFSET + 3, &[]),
            libc::EINVAL,
        ),
        (
            "an offset on the other side of the thread pointer",
            registration(-AN_OFFSET, &[]),
            libc::ENOEXEC,
        ),
        ("too many windows", too_many, libc::ENOSPC),
        (
            "a register that does not exist",
            with_word(good.clone(), 8 + 8, FG_REG_COUNT),
            libc::EINVAL,
        ),
        ("bytes after the message", oversized, libc::EINVAL),
    ];
    let count = cases.len() as u64;
    for (what, message, status) in cases {
        assert_eq!(running.status_of(&message), status, "{what}");
    }
    assert_eq!(running.stats().rejected_registrations, count);
    assert_eq!(running.stats().registered_processes, 0);
    assert_eq!(running.status_of(&good), 0);
    assert_eq!(running.stats().registered_processes, 1);
}

#[test]
fn a_truncated_message_is_refused_at_its_end() {
    let Some(running) = start() else { return };
    let good = registration(AN_OFFSET, &[window()]);
    for length in [1, 31, 32, good.len() - 1] {
        let mut stream = running.connect();
        stream.write_all(&good[..length]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(
            reply(&mut stream).status as i32,
            libc::EINVAL,
            "{length} bytes"
        );
    }
}

#[test]
fn who_only_looks_whether_it_lives_is_no_bad_client() {
    let Some(running) = start() else { return };
    drop(running.connect());
    assert_eq!(running.status_of(&registration(AN_OFFSET, &[])), 0);
    assert_eq!(running.stats().rejected_registrations, 0);
}

#[test]
fn a_message_may_come_in_pieces() {
    let Some(running) = start() else { return };
    let mut stream = running.connect();
    for piece in registration(AN_OFFSET, &[window()]).chunks(7) {
        stream.write_all(piece).unwrap();
    }
    assert_eq!(reply(&mut stream).status, 0);
}

/// The server gives each a second. Did it serve one after the other, the honest client would time out.
#[test]
fn slow_clients_stall_nobody() {
    let Some(running) = start() else { return };
    let good = registration(AN_OFFSET, &[window()]);
    let mut slow: Vec<_> = (0..40).map(|_| running.connect()).collect();
    for stream in &mut slow {
        let _ = stream.write_all(&good[..40]); // the first ones have lost their places
    }
    assert_eq!(running.status_of(&good), 0);
}

/// A drip does not extend the time.
#[test]
fn a_slow_client_is_dropped_in_the_middle_of_its_message() {
    let options = Options {
        client_time: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    let Some(running) = start_with(options) else {
        return;
    };
    let good = registration(AN_OFFSET, &[window(); FG_MAX_WINDOWS as usize]);
    let mut slow = running.connect();
    let mut bytes = good.iter();
    while slow
        .write_all(&[*bytes.next().expect("the slow client is never dropped")])
        .is_ok()
    {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(reply(&mut slow).status as i32, libc::ETIMEDOUT);
}

#[test]
fn a_crowd_of_silent_clients_stalls_nobody() {
    let Some(running) = start() else { return };
    let good = registration(AN_OFFSET, &[window()]);
    let mut crowd: Vec<_> = (0..200).map(|_| running.connect()).collect();
    assert_eq!(running.status_of(&good), 0);
    // The oldest went first, told why.
    assert_eq!(reply(&mut crowd[0]).status as i32, libc::EBUSY);
    assert_eq!(crowd[0].read(&mut [0]).unwrap(), 0, "it was not hung up on");
}

#[test]
fn the_windows_of_all_images_together_are_bounded() {
    let Some(running) = start() else { return };
    let windows = |from: u64, n: u64| -> Vec<fg_window> {
        (from..from + n)
            .map(|i| fg_window {
                begin: i * 0x100,
                end: i * 0x100 + 8,
                ..Default::default()
            })
            .collect()
    };
    register(&running.name, AN_OFFSET, &windows(1, 40));
    assert_eq!(
        running.status_of(&registration(AN_OFFSET + 256, &windows(100, 40))),
        libc::ENOSPC
    );
    assert_eq!(
        running.status_of(&registration(AN_OFFSET + 256, &windows(100, 24))),
        0
    );
}

/// Or a client would have the monitor's memory for as long as it likes.
#[test]
fn a_list_that_a_client_keeps_is_withdrawn() {
    let options = Options {
        list_time: Some(Duration::from_millis(100)),
        ..Options::default()
    };
    let Some(running) = start_with(options) else {
        return;
    };
    register(&running.name, block_offset(), &[]);
    let list = ask_for_list(&running.name);
    let deadline = Instant::now() + timeout();
    while list.metadata().unwrap().len() > 0 {
        assert!(Instant::now() < deadline, "it stays");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Statistics are asked for most where CPUs are scarce.
#[test]
fn a_monitor_that_gets_no_cpu_for_a_while_is_waited_for() {
    let Some((monitor, name)) = load() else {
        return;
    };
    let socket = SocketName::parse(name.as_ref()).unwrap();
    let asks = thread::spawn(move || Stats::query(&socket));
    thread::sleep(Duration::from_millis(1500));
    while_served(&monitor, || asks.join().unwrap().unwrap());
}

#[test]
fn statistics_are_served_and_a_monitor_that_is_not_there_is_said_so() {
    let Some(running) = start() else { return };
    let name = SocketName::parse(running.name.as_ref()).unwrap();
    register(&running.name, block_offset(), &[]);
    let stats = Stats::query(&name).unwrap();
    assert_eq!(stats.registered_processes, 1);
    assert!(stats.switches > 0);
    drop(running);
    assert!(matches!(Stats::query(&name), Err(Error::NotListening(_))));
}
