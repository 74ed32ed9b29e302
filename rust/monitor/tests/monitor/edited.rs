// SPDX-License-Identifier: MIT
//! With a kernel half that is edited to bring about what is rare or cannot be made to happen from outside. They compile
//! it, so they run only where its sources and clang are.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::counting::PREEMPTIONS;
use crate::harness::start;
use crate::mutants::serve_edited;

/// A switch-in can go unseen (monitor.bpf.c). Here the kernel half leaves some out itself, and a thread that was counted
/// must not stay counted for ever.
#[test]
fn a_switch_in_that_goes_unseen_is_made_good() {
    const UNSEEN: (&str, &str) = (
        "left = uncount(next, tracked(next, page), &at);",
        "left = count->switches % 11 ? uncount(next, tracked(next, page), &at) : NOT_COUNTED;",
    );
    const PREV_STAYS: (&str, &str) = (
        "left_too = uncount(prev, thread, &at);",
        "left_too = NOT_COUNTED;",
    );
    if start().is_none() {
        return;
    }
    assert_eq!(left_over(&[UNSEEN]), 0);
    assert_ne!(left_over(&[UNSEEN, PREV_STAYS]), 0);
}

/// How many are counted after a holder has died, in a kernel half with those edits.
fn left_over(edits: &[(&str, &str)]) -> u64 {
    let running = serve_edited(edits);
    let mut hog = running.helper("hog");
    assert_eq!(hog.hear(), "ready");
    let mut victim = running.helper("spin held");
    assert_eq!(victim.hear(), "ready");
    let enough = running.stats().preempted_holders + 4 * PREEMPTIONS;
    running.wait_until("preempted holders", |stats| {
        stats.preempted_holders >= enough
    });
    victim.kill();
    running.stats().num_preempted_cs
}

/// The hook that deletes the record at exec fails now and then on Linux 6.1; here it always does.
#[test]
fn a_record_that_outlives_its_program_judges_nobody() {
    const FAILS: (&str, &str) = (
        "if (page && page->any_process)\n\t\tbpf_task_storage_delete",
        "if (0)\n\t\tbpf_task_storage_delete",
    );
    const IGNORED: (&str, &str) = (
        " && process->exec_id == task->group_leader->self_exec_id",
        "",
    );
    if start().is_none() {
        return;
    }
    assert_eq!(preempted_after_exec(&[FAILS]), 0);
    assert_ne!(preempted_after_exec(&[FAILS, IGNORED]), 0);
}

/// How many preempted holders a kernel half with those edits counts in the program that a registered process becomes.
fn preempted_after_exec(edits: &[(&str, &str)]) -> u64 {
    let running = serve_edited(edits);
    let mut hog = running.helper("hog");
    assert_eq!(hog.hear(), "ready");
    let mut helper = running.helper("exec-of-critical");
    let thread = helper.hear();
    let preemptions = || {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = preemptions();
    while preemptions() < before + 20 {
        thread::sleep(Duration::from_millis(10));
    }
    running.stats().preempted_holders
}
