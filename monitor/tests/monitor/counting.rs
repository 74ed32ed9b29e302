// SPDX-License-Identifier: MIT
//! Which threads are counted, and as what. A victim spins in a known state on the CPU of a hog, so every switch away from it is a
//! preemption in that state.

use flexguard_monitor::Stats;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Running, is_root, start, take_turns_alone};

/// Enough that no accident looks like a rule.
pub const PREEMPTIONS: u64 = 30;

#[derive(Debug, Clone, Copy)]
enum Expect {
    Holder,
    NextWaiter,
    Nothing,
    /// A holder except for the few instructions around its loop.
    MostlyHolder,
}

/// Runs one victim beside the hog, kills it with SIGKILL, and holds what was counted against what it was.
fn check(running: &Running, role: &str, expect: Expect) {
    let before = running.stats();
    let mut victim = running.ready(role);
    wait_for_preemptions(running, role, expect, before);
    victim.kill();
    compare(role, expect, before, running.stats());
}

/// One victim alone makes every preemption that is counted a transition, except those after a switch back to it that
/// the tracepoint did not report: then it still is counted. However many those are, the others come.
fn wait_for_preemptions(running: &Running, role: &str, expect: Expect, before: Stats) {
    let many = PREEMPTIONS / 2;
    running.wait_until(role, |stats| {
        let counted = stats.preempted_holders + stats.preempted_next_waiters
            - before.preempted_holders
            - before.preempted_next_waiters;
        let enough = match expect {
            Expect::Nothing => true,
            // Where each must be counted, there is nothing to wait for if they are not.
            Expect::Holder | Expect::NextWaiter if counted < many => true,
            _ => stats.mode_transitions >= before.mode_transitions + many,
        };
        enough && stats.registered_preemptions >= before.registered_preemptions + PREEMPTIONS
    });
}

fn compare(role: &str, expect: Expect, before: Stats, after: Stats) {
    let all = after.registered_preemptions - before.registered_preemptions;
    let holders = after.preempted_holders - before.preempted_holders;
    let waiters = after.preempted_next_waiters - before.preempted_next_waiters;
    match expect {
        Expect::Holder => assert_eq!((holders, waiters), (all, 0), "{role}: {after:?}"),
        Expect::NextWaiter => assert_eq!((holders, waiters), (0, all), "{role}: {after:?}"),
        Expect::Nothing => assert_eq!((holders, waiters), (0, 0), "{role}: {after:?}"),
        Expect::MostlyHolder => assert_eq!(waiters, 0, "{role}: {after:?}"),
    }
    assert_eq!(
        after.num_preempted_cs, 0,
        "{role}: the counter did not return to 0 after kill -9"
    );
    assert_eq!((after.missed, after.lost_records), (0, 0), "{role}");
    let transitions = after.mode_transitions - before.mode_transitions;
    assert!(
        transitions <= holders + waiters,
        "{role}: {transitions}, {after:?}"
    );
}

fn check_all(cases: &[(&str, Expect)]) {
    let Some(running) = start() else { return };
    let _hog = running.ready("hog");
    for &(role, expect) in cases {
        check(&running, role, expect);
    }
}

#[test]
fn held_locks() {
    check_all(&[
        ("spin idle", Expect::Nothing),
        ("spin held", Expect::Holder),
        ("spin held twice", Expect::Holder),
        ("spin foreign unlock", Expect::Nothing),
        ("spin second image", Expect::MostlyHolder),
    ]);
}

#[test]
fn queues() {
    check_all(&[
        ("spin granted", Expect::NextWaiter),
        ("spin waiting", Expect::Nothing),
        ("spin left", Expect::Nothing),
        ("spin granted and held", Expect::Holder),
        ("spin granted and owner", Expect::Holder),
    ]);
}

#[test]
fn intents() {
    check_all(&[
        ("spin owner", Expect::Holder),
        ("spin not owner", Expect::Nothing),
        ("spin nobody", Expect::Nothing),
    ]);
}

#[test]
fn windows() {
    check_all(&[
        ("spin window", Expect::MostlyHolder),
        ("spin window elsewhere", Expect::Nothing),
        ("spin window true", Expect::MostlyHolder),
        ("spin window false", Expect::Nothing),
        ("stand before-window", Expect::Nothing),
        ("stand last-of-window", Expect::MostlyHolder),
    ]);
}

#[test]
fn threads() {
    check_all(&[
        ("thread", Expect::MostlyHolder),
        ("old-thread", Expect::MostlyHolder),
    ]);
}

#[test]
fn a_process_in_its_own_pid_namespace() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // making one needs CAP_SYS_ADMIN
    }
    let _hog = running.ready("hog");
    let before = running.stats();
    let mut outside = running.helper("pid-namespace");
    let inside: i32 = outside.hear().parse().unwrap();
    outside.go();
    assert_eq!(outside.hear(), "ready");
    wait_for_preemptions(&running, "in a PID namespace", Expect::Holder, before);
    kill(Pid::from_raw(inside), Signal::SIGKILL).unwrap();
    outside.wait();
    compare(
        "in a PID namespace",
        Expect::Holder,
        before,
        running.stats(),
    );
}

#[test]
fn what_cannot_be_read_is_not_critical_and_said_to_be_unreadable() {
    let Some(running) = start() else { return };
    let _hog = running.ready("hog");
    check(&running, "spin node nowhere", Expect::Nothing);
    assert!(running.stats().unreadable >= PREEMPTIONS);
}

/// Two holders and a thread without a lock take turns: one holder is always off CPU, so the counter stays above 0 and
/// locks stay in one mode, whether a holder gives way to the other or to the third.
#[test]
fn one_holder_replacing_another_is_no_transition() {
    let Some(running) = start() else { return };
    let _alone = take_turns_alone();
    let roles = ["yield 1", "yield 1", "yield 0"];
    let mut all = roles.map(|role| running.helper(role));
    for helper in &mut all {
        assert_eq!(helper.hear(), "ready");
    }
    for helper in &mut all {
        helper.go();
    }
    let held = |stats: &Stats| stats.preempted_holders;
    let first = held(&running.stats());
    let before = running.wait_until("all have run", |stats| held(stats) >= first + 10);
    let enough = held(&before) + 4 * PREEMPTIONS;
    let after = running.wait_until("preempted holders", |stats| held(stats) >= enough);
    assert_eq!(
        after.mode_transitions, before.mode_transitions,
        "{before:?} {after:?}"
    );
    for helper in &mut all {
        helper.kill();
    }
    assert_eq!(running.stats().num_preempted_cs, 0);
}

/// A thread that gets no CPU is counted for a second and no longer; counted again when it is preempted again; and the
/// counter is right whether it runs again or dies.
#[test]
fn who_gets_no_cpu_is_forgotten_after_a_second() {
    let Some(running) = start() else { return };
    if !is_root() {
        return; // the hog's priority needs CAP_SYS_NICE
    }
    for role in ["spin granted", "spin held"] {
        let before = running.stats();
        let mut victim = running.ready(role);
        for round in 1..=2 {
            let mut hog = running.ready("starving hog");
            victim.starve();
            // It may be aged before it is starved, and then run once more.
            running.wait_until(role, |stats| {
                stats.aged >= before.aged + round && stats.num_preempted_cs == 0
            });
            victim.starve_no_more();
            hog.kill();
            running.wait_until("it runs again, and its time is told", |stats| {
                stats.preempted_ns >= before.preempted_ns + round * 1_000_000_000
            });
        }
        victim.kill();
        assert_eq!(running.stats().num_preempted_cs, 0, "{role}");
    }
}
