// SPDX-License-Identifier: MIT
//! A client that says whatever it likes, very often: nothing of it stays behind, and others are served.

use std::env;
use std::io::Write;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::fg_window;
use flexguard_monitor::{SocketName, Stats};
use nix::unistd::setresuid;

use crate::harness::{AN_OFFSET, Helper, is_root, registration, status_of, timeout};
use crate::scale::size;
use crate::victim::{block_offset, say};

/// A user is allowed a burst of that many connections; then the fuzzer goes on as another user.
const OF_ONE_USER: u64 = 4000;
/// So many messages the test sends where the environment does not say otherwise.
const MESSAGES: u64 = 50_000;
const MESSAGES_ENV: &str = "FLEXGUARD_FUZZ_MESSAGES";

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A valid message, damaged in some way, or none.
fn message(random: &mut Random) -> Vec<u8> {
    let window = fg_window {
        begin: 0x1000,
        end: 0x1010,
        ..Default::default()
    };
    let mut bytes = registration(AN_OFFSET, &vec![window; random.below(66)]);
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        bytes[at] = random.below(256) as u8;
    }
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => bytes.extend(vec![0xff; random.below(5000)]),
        _ => {}
    }
    bytes
}

pub fn play(socket: &str) {
    let messages: u64 = env::var(MESSAGES_ENV).map_or(MESSAGES, |n| n.parse().unwrap());
    let address = SocketAddr::from_abstract_name(&socket[1..]).unwrap();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for n in 0..messages {
        if n % OF_ONE_USER == 0 {
            let (root, id) = (0.into(), (100_000 + (n / OF_ONE_USER) as u32).into());
            setresuid(root, root, root).unwrap();
            setresuid(id, id, root).unwrap();
        }
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        let _ = stream.write_all(&message(&mut random)); // it may be refused before all of it is said
        if random.below(2) == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
    say("done");
}

#[test]
fn whatever_a_client_says_nothing_stays_behind() {
    if !is_root() {
        return; // no other users to be
    }
    let Some((mut monitor, name)) = Helper::monitor("serve") else {
        return;
    };
    // A block that stays zero: nobody of this process is ever counted.
    let harmless = registration(block_offset(), &[]);
    assert_eq!(status_of(&name, &harmless), 0);
    let (_, before) = size(&mut monitor);
    let mut fuzzer = Helper::start("fuzz", &name);
    assert_eq!(fuzzer.hear(), "done");
    fuzzer.wait(); // some of its messages are valid: while it lives, it may be preempted with what looks like a lock
    assert_eq!(status_of(&name, &harmless), 0);
    let stats = || Stats::query(&SocketName::parse(name.as_ref()).unwrap()).unwrap();
    let refused = stats().rejected_registrations;
    assert!(refused > MESSAGES / 2, "{refused}");
    let deadline = Instant::now() + timeout();
    while size(&mut monitor).1 > before || stats().num_preempted_cs > 0 {
        assert!(Instant::now() < deadline, "something stays: {:?}", stats());
        thread::sleep(Duration::from_millis(5));
    }
}
