// SPDX-License-Identifier: MIT
//! With a kernel half that is edited to bring about what is rare or cannot be made to happen from outside. They compile
//! it, so they run only where its sources and clang are.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::FG_WANT_SLICE_FORECAST;
use flexguard_monitor::{DomainKind, Options, Stats};

use crate::counting::PREEMPTIONS;
use crate::domains::View;
use crate::harness::{Running, is_root, start, timeout};
use crate::logged::{listen, times_logged};
use crate::mutants::{serve_edited, serve_edited_with};

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
    let running = after_a_holder(&[UNSEEN]);
    running.wait_until("nobody to be counted", |stats| stats.num_preempted_cs == 0);
    drop(running);
    // Whether a holder is counted when it dies is chance.
    let dies_counted = || {
        let running = after_a_holder(&[UNSEEN, PREV_STAYS]);
        let died = running.stats();
        (died.num_preempted_cs != 0).then_some((running, died))
    };
    let (running, died) = (0..50).find_map(|_| dies_counted()).unwrap();
    // Nobody uncounts it any more. But the threads are counted again.
    running.wait_until("the dead to be forgotten", |stats| {
        stats.num_preempted_cs == 0
    });
    assert_eq!(running.stats().aged, died.aged);
}

/// After a holder has been preempted, and has died, in a kernel half with those edits.
fn after_a_holder(edits: &[(&str, &str)]) -> Running {
    let running = serve_edited(edits);
    let _hog = running.ready("hog");
    let mut victim = running.ready("spin held");
    let enough = running.stats().preempted_holders + 4 * PREEMPTIONS;
    running.wait_until("preempted holders", |stats| {
        stats.preempted_holders >= enough
    });
    victim.kill();
    running
}

/// But where its switch-in before it went unseen: then it never left the counter. Here the kernel half tells how often
/// that was, in a number that is 0 otherwise.
#[test]
fn each_preemption_of_a_lone_holder_is_a_transition() {
    const TELLS: (&str, &str) = (
        "\tif (joined != NOT_COUNTED || left != NOT_COUNTED",
        "\tcount->lost_records += joined != NOT_COUNTED && left_too != NOT_COUNTED;\n\
         \tif (joined != NOT_COUNTED || left != NOT_COUNTED",
    );
    const SOME_UNSAID: (&str, &str) = (
        "__sync_fetch_and_add(&at->page->mode_transitions, 1);",
        "if (at->count->switches % 3) __sync_fetch_and_add(&at->page->mode_transitions, 1);",
    );
    if start().is_none() {
        return;
    }
    let counted = |edits: &[(&str, &str)]| {
        let stats = after_a_holder(edits).stats();
        let unseen = stats.lost_records;
        (stats.preempted_holders, stats.mode_transitions + unseen)
    };
    let (holders, transitions) = counted(&[TELLS]);
    assert_eq!(transitions, holders);
    let (holders, transitions) = counted(&[TELLS, SOME_UNSAID]);
    assert!(transitions < holders, "{transitions} of {holders}");
}

/// The hook that deletes the record at exec fails now and then on Linux 6.1; here it always does.
const FAILS_AT_EXEC: (&str, &str) = (
    "if (page && page->any_process && bpf_task_storage_delete",
    "if (0 && bpf_task_storage_delete",
);

#[test]
fn a_record_that_outlives_its_program_judges_nobody() {
    const IGNORED: (&str, &str) = (
        " && process->exec_id == task->group_leader->self_exec_id",
        "",
    );
    if start().is_none() {
        return;
    }
    assert_eq!(preempted_after_exec(&[FAILS_AT_EXEC]), 0);
    assert_ne!(preempted_after_exec(&[FAILS_AT_EXEC, IGNORED]), 0);
}

/// Its user may have one watched program; the process of the record runs another one by now, and a second process has
/// registered.
#[test]
fn a_record_that_outlives_its_program_is_no_leave_to_register_beyond_the_limit() {
    if start().is_none() {
        return;
    }
    let options = Options {
        programs_of_user: Some(1),
        ..Options::default()
    };
    let running = serve_edited_with(&[FAILS_AT_EXEC], options);
    let mut first = running.helper("successor");
    assert_eq!(first.hear(), "another program");
    let mut second = running.helper("member");
    assert_eq!(second.hear(), "0");
    first.go();
    assert_eq!(first.hear().parse(), Ok(libc::EDQUOT));
    second.kill();
    first.go();
    assert_eq!(first.hear(), "0");
}

/// How many preempted holders a kernel half with those edits counts in the program that a registered process becomes.
fn preempted_after_exec(edits: &[(&str, &str)]) -> u64 {
    let running = serve_edited(edits);
    let _hog = running.ready("hog");
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

/// The kernel may be out of memory for the iterator that counts the registered programs; here it always fails.
#[test]
fn a_look_that_fails_is_not_tried_again_at_once() {
    const FAILS: (&str, &str) = (
        "bpf_seq_write(ctx->meta->seq, &counted, sizeof(counted));\n\treturn 0;",
        "return 1;",
    );
    const TOLD: &str = "cannot count the registered programs";
    if start().is_none() {
        return;
    }
    listen();
    let begin = Instant::now();
    let running = serve_edited(&[FAILS]);
    let mut member = running.helper("member");
    assert_eq!(member.hear(), "0");
    while times_logged(TOLD) == 0 {
        assert!(begin.elapsed() < timeout(), "it does not fail");
        thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..100 {
        assert_eq!(running.status_of(b"garbage!"), libc::EPROTO); // the server wakes
    }
    let (told, seconds) = (times_logged(TOLD), begin.elapsed().as_secs());
    assert!(told as u64 <= 1 + seconds, "{told} times in {seconds} s");
}

/// Who is looked at by fg_age has run meanwhile.
const RAN: (&str, &str) = (
    "\t__sync_fetch_and_add(&page->named, 1);\n\tif (__sync_val",
    "\tthread->since_ns = bpf_ktime_get_ns();\n\t__sync_fetch_and_add(&page->named, 1);\n\tif (__sync_val",
);

/// fg_age looks at a thread, which may run and be counted anew before it is taken out of the counter. Here it always
/// has.
#[test]
fn who_has_run_while_its_age_was_looked_at_stays_counted() {
    const UNCHECKED: (&str, &str) = ("if (!waits_too_long(thread) &&", "if (0 &&");
    if start().is_none() || !is_root() {
        return; // the hog's priority needs CAP_SYS_NICE
    }
    while_starved(&[RAN], |stats| {
        assert_eq!(stats.aged, 0);
        stats.blocking_ns >= 3_000_000_000 && stats.num_preempted_cs == 1
    });
    while_starved(&[RAN, UNCHECKED], is_aged);
}

/// Two CPUs that move the counter at once may leave it above 0 without a time since when. Here it never has one.
#[test]
fn who_gets_no_cpu_is_forgotten_also_where_no_time_says_so() {
    const NO_TIME: (&str, &str) = ("\tat->page->blocking_since_ns = time_of(at);", "");
    if start().is_none() || !is_root() {
        return; // the hog's priority needs CAP_SYS_NICE
    }
    while_starved(&[NO_TIME], is_aged);
}

/// Who joins the counter when a recount has looked at the threads is none that has died in it. Here one does each time,
/// and leaves again.
#[test]
fn who_joins_after_a_recount_is_not_taken_for_dead() {
    const JOINS: (&str, &str) = (
        "dead = surplus(of, quiet);",
        "__sync_fetch_and_add(counter_of(all, domain), 1);\n\
         \tdead = surplus(of, quiet);\n\
         \t__sync_fetch_and_add(counter_of(all, domain), -1);",
    );
    const LATE: (&str, &str) = (
        "\tdead = surplus(of, quiet);",
        "\tof->counter = *counter_of(all, domain);\n\tdead = surplus(of, quiet);",
    );
    if start().is_none() || !is_root() {
        return; // the hog's priority needs CAP_SYS_NICE
    }
    while_starved(&[RAN, JOINS], |stats| {
        stats.blocking_ns >= 4_000_000_000 && stats.num_preempted_cs == 1
    });
    while_starved(&[RAN, JOINS, LATE], |stats| stats.num_preempted_cs == 0);
}

/// Who is aged leaves its domain's counter, too. A recount would take it out half a second later; here none does.
#[test]
fn who_gets_no_cpu_leaves_its_domains_counter_without_a_recount() {
    const NO_RECOUNT: (&str, &str) = (
        "dead = surplus(of, quiet);",
        "dead = surplus(of, quiet) * 0;",
    );
    const STAYS: (&str, &str) = ("adjust_domain(all, thread->domain, -1);", ";");
    if start().is_none() || !is_root() {
        return; // the hog's priority needs CAP_SYS_NICE
    }
    let wait_for = |edits: &[(&str, &str)], counters: (u32, u32)| {
        let options = Options {
            domains: DomainKind::User,
            ..Options::default()
        };
        let running = serve_edited_with(edits, options);
        let view = View::of(&running);
        let victim = running.ready("spin held");
        let _hog = running.ready("starving hog");
        victim.starve();
        running.wait_until("it ages", |stats| stats.aged > 0);
        // It may be aged before it is starved, and then run once more.
        view.wait_for("the counters of an aged holder", |v| {
            (v.machine(), v.own()) == counters
        });
    };
    wait_for(&[NO_RECOUNT], (0, 0));
    wait_for(&[NO_RECOUNT, STAYS], (0, 1));
}

fn is_aged(stats: &Stats) -> bool {
    stats.aged > 0 && stats.num_preempted_cs == 0
}

/// Waits for that while a holder gets no CPU, in a kernel half with those edits.
fn while_starved(edits: &[(&str, &str)], wanted: impl Fn(&Stats) -> bool) {
    let running = serve_edited(edits);
    let victim = running.ready("spin held");
    let _hog = running.ready("starving hog");
    victim.starve();
    running.wait_until("what comes of it", wanted);
}

/// Once a process has asked for the ends of its slices, a bystander is not looked up at each switch to it. Here the
/// kernel half counts the look-ups for processes that have no storage.
#[test]
fn ends_of_slices_cost_a_bystander_no_look_up() {
    const COUNTED: (&str, &str) = (
        "process = bpf_task_storage_get(&processes, leader, 0, 0);\n\tif (process && (process->flags",
        "if (!leader->bpf_storage)\n\t\tall->page.missed++;\n\t\
         process = bpf_task_storage_get(&processes, leader, 0, 0);\n\tif (process && (process->flags",
    );
    const ALWAYS: (&str, &str) = (" || !leader->bpf_storage)", ")");
    if start().is_none() {
        return;
    }
    assert_eq!(look_ups_in_vain(&[COUNTED]), 0);
    assert_ne!(look_ups_in_vain(&[COUNTED, ALWAYS]), 0);
}

fn look_ups_in_vain(edits: &[(&str, &str)]) -> u64 {
    let running = serve_edited(edits);
    let mut bystanders = ["hog", "hog"].map(|role| running.helper(role));
    for bystander in &mut bystanders {
        assert_eq!(bystander.hear(), "ready");
    }
    let mut asks = running.helper(&format!("slices {FG_WANT_SLICE_FORECAST}"));
    asks.hear();
    let enough = running.stats().switches + 100;
    running.wait_until("more switches", |stats| stats.switches >= enough);
    running.stats().missed
}
