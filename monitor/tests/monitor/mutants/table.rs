// SPDX-License-Identifier: MIT
// The kernel half, broken on purpose: each condition of bpf/monitor.bpf.c, census.h, cpus.h, domains.h, judge.h and names.h
// dropped or turned round, and what must notice. Included by mutants.rs and by the oracle's build script (tests/checks/oracle).
//
// Left out are conditions without which the monitor says the same and only costs more: `any_process`, `slices_wanted`,
// `PF_KTHREAD`, whether a thread has storage at all (`bpf_storage`), the empty record (`n_images`), the range (lo, hi]
// around all windows, the first line of still_runnable (the run queue says the same) and uncount's shortcut where
// nobody is counted. What fg_age adds to `named` shows only on an idle machine: without it the time that an aged waiter
// was off CPU goes untold, if nothing else preempts it. What cpus_of does about CPUs that a machine cannot have, or above
// the 64th, shows on a larger machine only.
// edited::a_record_that_outlives_its_program_judges_nobody drops the comparison of exec_id itself.
// edited::who_has_run_while_its_age_was_looked_at_stays_counted drops the second look at the age.
// edited::who_gets_no_cpu_leaves_its_domains_counter_without_a_recount drops the adjustment of the domain in fg_age.
// edited::a_switch_in_that_goes_unseen_is_made_good drops the uncounting of prev itself.

pub struct Mutant {
    pub name: &'static str,
    pub old: &'static str,
    pub new: &'static str,
    /// A test of the monitor, or ORACLE.
    pub caught_by: &'static str,
}

pub const ORACLE: &str = "oracle";
const OWN_USER: &str = "domains::a_holder_raises_the_counter_of_its_user_and_no_others";
const OWN_NAMES: &str = "domains::who_sleeps_with_a_lock_is_named_to_its_own_user_alone";
const NOTED: &str = "notes::who_has_a_handle_is_noted_beside_its_name";
const OWN_CPUS: &str = "domains::programs_share_a_counter_if_they_may_use_the_same_cpus";
const CROWD: &str = "domains::where_all_domains_are_taken_those_without_one_share_some";
const MANY_IDS: &str = "domains::who_has_many_ids_slows_none_that_come_later";
const RANGES: &str = "domains::subordinate_ids_are_held_against_the_user_who_has_them";
const SHARES: &str = "census::all_ids_of_a_user_namespace_have_one_share_of_the_watched_programs";
const GROUPS: &str = "census::control_groups_that_a_user_has_made_have_one_share";
const STAYS: &str = "stays::the_page_tells_how_long_the_process_before_had_the_cpu";
const FULL: &str =
    "census::a_user_has_so_many_watched_programs_and_other_users_have_theirs";
const BUDGET: &str = "census::the_records_of_all_users_take_so_much_memory_and_no_more";
const RESTS: &str = "census::where_no_program_is_left_the_kernel_half_rests";
const AGED: &str = "counting::who_gets_no_cpu_is_forgotten_after_a_second";

const fn mutant(
    name: &'static str,
    caught_by: &'static str,
    old: &'static str,
    new: &'static str,
) -> Mutant {
    Mutant {
        name,
        old,
        new,
        caught_by,
    }
}

pub const MUTANTS: &[Mutant] = &[
    // judge_block
    mutant("held-ignored", "counting::held_locks", "if (block.held > 0)", "if (0)"),
    mutant("held-below-zero", "counting::held_locks", "if (block.held > 0)", "if (block.held != 0)"),
    mutant("held-once-only", "counting::held_locks", "if (block.held > 0)", "if (block.held == 1)"),
    mutant("intent-ignored", "counting::intents", "if (block.pending) {", "if (0) {"),
    mutant(
        "intent-is-enough",
        "counting::intents",
        "(word & FG_OWNER_MASK) == block.self",
        "block.self",
    ),
    mutant("nameless-owner", "counting::intents", "else if (block.self && (word", "else if ((word"),
    mutant("flags-in-the-name", "counting::intents", "(word & FG_OWNER_MASK) == block.self", "word == block.self"),
    mutant("node-ignored", "counting::queues", "if (block.node) {", "if (0) {"),
    mutant("any-node", "counting::queues", "word == FG_NODE_GRANTED", "word != FG_NODE_FREE"),
    mutant("left-node", "counting::queues", "word == FG_NODE_GRANTED", "word != FG_NODE_WAITING"),
    mutant(
        "waiter-before-holder",
        "counting::queues",
        "return FG_KIND_NEXT_WAITER;",
        "return FG_KIND_HOLDER;",
    ),
    mutant(
        "unreadable-unsaid",
        "counting::what_cannot_be_read_is_not_critical_and_said_to_be_unreadable",
        "count->unreadable++;",
        ";",
    ),
    // judge and its windows
    mutant(
        "first-image-only",
        "counting::held_locks",
        "process->images[i].block_offset, count",
        "process->images[0].block_offset, count",
    ),
    mutant("windows-ignored", "counting::windows", "if (!number)\n\t\t\tcontinue;", "continue;"),
    mutant("window-from-zero", ORACLE, "ip > window->begin && ", ""),
    mutant("window-with-its-begin", "counting::windows", "ip > window->begin", "ip >= window->begin"),
    mutant("window-without-its-end", ORACLE, "ip <= window->end", "ip < window->end"),
    mutant("window-without-condition", "counting::windows", " && window_holds(window, at)", ""),
    mutant("window-mask-ignored", "counting::windows", " & window->mask) == window->value", ") == window->value"),
    mutant("window-another-register", "counting::windows", "= regs->cx;", "= regs->dx;"),
    // counting
    mutant("never-uncounted", "counting::held_locks", "left = uncount(next, tracked(next, page), &at);", "left = NOT_COUNTED;"),
    mutant("counter-only-grows", "counting::held_locks", "} else if (delta < 0) {", "} else if (0) {"),
    mutant("holders-as-waiters", "counting::held_locks", "\tif (kind == FG_KIND_HOLDER) {\n\t\t__sync", "\tif (0) {\n\t\t__sync"),
    mutant("transitions-unsaid", "counting::held_locks", "__sync_fetch_and_add(&at->page->mode_transitions, 1);", ";"),
    mutant(
        "every-rise-a-transition",
        "counting::one_holder_replacing_another_is_no_transition",
        "__sync_fetch_and_add(&at->page->num_preempted_cs, delta) == 0",
        "__sync_fetch_and_add(&at->page->num_preempted_cs, delta) >= 0",
    ),
    mutant(
        "out-and-in-apart",
        "counting::one_holder_replacing_another_is_no_transition",
        "\tjoined = switched_out(",
        "\tadjust(&at, -(left != NOT_COUNTED));\n\tleft = NOT_COUNTED;\n\tjoined = switched_out(",
    ),
    // who is preempted
    mutant(
        "sleepers-counted",
        "sleepers::who_sleeps_with_a_lock_is_noted_until_it_runs",
        "runnable = still_runnable(prev, preempt, prev_state);",
        "runnable = true;",
    ),
    mutant(
        "only-preempt",
        "counting::held_locks",
        "runnable = still_runnable(prev, preempt, prev_state);",
        "runnable = preempt;",
    ),
    mutant(
        "off-the-queue-is-runnable",
        "sleepers::who_sleeps_with_a_lock_is_noted_until_it_runs",
        "if (!prev->on_rq)\n\t\treturn false;",
        "",
    ),
    mutant(
        "delayed-dequeue-is-runnable",
        ORACLE,
        "return !(bpf_core_field_exists(prev->se.sched_delayed) && prev->se.sched_delayed);",
        "return true;",
    ),
    // sleepers
    mutant(
        "sleep-not-noted",
        "sleepers::who_sleeps_with_a_lock_is_noted_until_it_runs",
        "\tif (thread && name)\n\t\tpublish_name(thread, name, life, at->cpu, at->all);",
        "",
    ),
    mutant(
        "preempted-not-named",
        "sleepers::who_is_preempted_is_named_until_it_runs",
        "\tif (name)\n\t\tpublish_name(thread, name | FG_RUNNABLE, life, at->cpu, at->all);",
        "",
    ),
    mutant(
        "any-name",
        "sleepers::who_calls_itself_by_another_threads_number_is_not_named",
        "if (name && !is_own_name(prev, name))",
        "if (0)",
    ),
    mutant(
        "namespaces-ignored",
        "sleepers::a_thread_is_named_as_its_own_pid_namespace_numbers_it",
        "if (level == 0 || level > DEEPEST_PID_NAMESPACE)",
        "if (1)",
    ),
    mutant(
        "every-sleep-noted",
        "sleepers::who_sleeps_without_a_lock_is_not",
        "if (kind == FG_KIND_NONE || (!runnable && kind != FG_KIND_HOLDER))",
        "if (runnable && kind == FG_KIND_NONE)",
    ),
    mutant(
        "sleep-not-forgotten",
        "sleepers::who_sleeps_with_a_lock_is_noted_until_it_runs",
        "if (thread->named_as)\n\t\tforget_name(thread, at->all);",
        "",
    ),
    // the life of a registration
    mutant("thread-without-record", "counting::threads", "\tmake_thread_record(child, count);", ""),
    mutant("old-thread-without-record", "counting::threads", "\tmake_thread_record(task, count);", ";"),
    mutant("full-users-fork", FULL, "if (i < full->number && full->account[i] == account)", "if (0)"),
    mutant("none-may-fork", FULL, "if (i < full->number && full->account[i] == account)", "if (i < full->number)"),
    mutant("records-without-end", BUDGET, "if (__sync_fetch_and_add(left, -bytes) >= bytes)", "if (1)"),
    mutant("watches-for-ever", RESTS, "page->any_process = 0;", ";"),
    mutant("slices-for-ever", RESTS, "if (!args->slices)", "if (0)"),
    mutant("rests-too-early", RESTS, "if (!args->any &&", "if ("),
    mutant("child-not-registered", "lifecycle::fork_inherits", "if (child->pid == child->tgid) {", "if (0) {"),
    mutant("exec-keeps", "lifecycle::exec_drops", "if (page && page->any_process && bpf_task_storage_delete", "if (0 && bpf_task_storage_delete"),
    mutant(
        "no-goodbye",
        "lifecycle::the_page_is_read_only_and_its_heart_beats",
        "args->alive ? bpf_ktime_get_ns() : 0",
        "bpf_ktime_get_ns()",
    ),
    mutant(
        "slices-for-all",
        "slices::who_does_not_ask_is_told_nothing",
        "process && (process->flags & FG_WANT_SLICE_FORECAST)",
        "process",
    ),
    mutant(
        "slices-for-nobody",
        "slices::who_asks_is_told_when_each_slice_ends",
        "process && (process->flags & FG_WANT_SLICE_FORECAST)",
        "0",
    ),
    // the CPU's process
    mutant("stay-unsaid", STAYS, "(us < FG_STAY_US ? us : FG_STAY_US)", "0"),
    mutant("waits-unsaid", STAYS, "(count->process_waits ? FG_STAY_WAITS : 0)", "0"),
    mutant("waits-always", STAYS, "count->process_waits = runnable &&", "count->process_waits = 1 ||"),
    mutant("stay-since-the-first", STAYS, "\tcount->process_since_ns = now;", ""),
    // fg_age
    mutant("ages-nobody", AGED, ">= (__s64)FG_AGED_NS;", ">= (__s64)FG_AGED_NS && 0;"),
    // domains
    mutant("joins-no-domain", OWN_USER, "adjust_domain(all, joined, 1);", ";"),
    mutant("joins-domain-zero", OWN_USER, "thread->domain = process->domain;", "thread->domain = 0;"),
    mutant("everyone-in-one-domain", OWN_USER, "id = owner_of(task).user;", "id = 7;"),
    mutant("everyone-on-the-same-cpus", OWN_CPUS, "id = cpus_of(task, cpus);", "id = 1;"),
    mutant("stays-in-its-domain", "domains::holders_of_two_users_take_turns", "\t\tadjust_domain(all, left, -1);\n\t\tadjust_domain(all, left_too", "\t\tadjust_domain(all, left_too"),
    mutant("names-on-the-page", OWN_NAMES, "if (domain == 0 || domain >= FG_DOMAINS)\n\t\treturn &all->page", "if (1)\n\t\treturn &all->page"),
    mutant("names-of-all-domains", OWN_NAMES, "return &all->off_cpu[domain % FG_DOMAINS]", "return &all->off_cpu[1]"),
    mutant("name-forgotten-on-the-page", OWN_NAMES, "*place = place_of(name, thread->domain, all)", "*place = place_of(name, 0, all)"),
    mutant("notes-in-one-domain", NOTED, "return &all->off_cpu_notes[domain % FG_DOMAINS]", "return &all->off_cpu_notes[0]"),
    mutant("note-of-no-cpu", NOTED, "(cpu < FG_NOTE_NO_CPU ? cpu : FG_NOTE_NO_CPU)", "7"),
    mutant("note-not-forgotten", NOTED, "if (thread->noted) {", "if (0) {"),
    mutant("sleeper-not-noted", "notes::who_sleeps_with_a_handle_is_noted", "publish_name(thread, name, life, at->cpu, at->all)", "publish_name(thread, name, 0, at->cpu, at->all)"),
    mutant("one-shared-domain", CROWD, "hash_of_key(key) % FG_CLASS_DOMAINS", "0"),
    mutant("no-class", MANY_IDS, "class_of(task) * 2", "0 * 2"),
    mutant("owners-ignored", RANGES, "ns ? BPF_CORE_READ(ns, owner.val) : 0", "0"),
    mutant("containers-ignored", SHARES, "owner.user && !owner.container)", "owner.user)"),
    mutant("made-groups-count", GROUPS, "DEEPEST_GROUP && BPF", "0 && BPF"),
    mutant("no-domain-is-freed", CROWD, "all->domains[i].key = 0;", ";"),
    mutant("used-domains-are-freed", CROWD, "all->domains[i].searched != all->page.domain_search &&", ""),
    mutant("aged-uncounted-twice", AGED, "if (!(was & FG_AGED))", "if (1)"),
];
