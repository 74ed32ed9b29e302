// SPDX-License-Identifier: MIT
//! Domains: whose counter a preempted critical section raises, and whose table has its thread's name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write, pipe};
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flexguard_abi::*;
use flexguard_monitor::{DomainKind, Listing, SocketName};
use nix::sched::{CloneFlags, unshare};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::prctl;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Uid, getppid, pause, setresgid, setresuid};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::harness::{
    Helper, Running, is_root, register_in_domain, say_skipped, start_with_domains,
    take_turns_alone, timeout,
};
use crate::victim::{allowed_cpus, block_offset, die_with, fork_to_die_together, say};

/// Nobody of this machine.
const STRANGER: u32 = 54321;
/// The first of a range of ids.
const SUBORDINATE: u32 = 100_000;
const KIND_SHIFT: u32 = 56;

/// From a process that dies with its parent, and still does.
pub fn become_user(uid: u32) {
    let parent = getppid();
    let gid = Gid::from_raw(uid);
    setresgid(gid, gid, gid).unwrap();
    let uid = Uid::from_raw(uid);
    setresuid(uid, uid, uid).unwrap();
    prctl::set_dumpable(true).unwrap();
    die_with(parent);
}

/// Registers, and says in which domain it is. Stays.
fn join(socket: &str) {
    let (_fd, domain) = register_in_domain(socket, block_offset());
    say(&format!("domain {domain}"));
    loop {
        pause();
    }
}

/// So many processes, each registered for a user of its own.
pub fn play_crowd(socket: &str, which: &str) {
    let (first, number) = which.split_once(' ').unwrap();
    let first: u32 = first.parse().unwrap();
    for uid in first..first + number.parse::<u32>().unwrap() {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork_to_die_together() } {
            become_user(uid);
            join(socket);
        }
    }
    loop {
        pause();
    }
}

/// Plays the role as the root of a user namespace that this user has made, with a range of ids. Root's is a container.
pub fn play_within(which: &str, play: impl FnOnce(&str)) {
    let (owner, role) = which.split_once(' ').unwrap();
    let owner: u32 = owner.parse().unwrap();
    let (mut made, mut makes) = pipe().unwrap();
    let (mut mapped, mut maps) = pipe().unwrap();
    // SAFETY: this process has one thread.
    match unsafe { fork_to_die_together() } {
        ForkResult::Child => {
            drop(maps); // or this process would wait for itself
            if owner > 0 {
                become_user(owner);
            }
            unshare(CloneFlags::CLONE_NEWUSER).unwrap();
            makes.write_all(b".").unwrap();
            mapped.read_exact(&mut [0]).unwrap();
            become_user(0);
            play(role);
        }
        ForkResult::Parent { child } => {
            drop(makes);
            made.read_exact(&mut [0]).unwrap();
            for map in ["uid_map", "gid_map"] {
                let range = format!("0 {SUBORDINATE} 65536");
                fs::write(format!("/proc/{child}/{map}"), range).unwrap();
            }
            maps.write_all(b".").unwrap();
            waitpid(child, None).unwrap();
        }
    }
}

/// The beginning of what a monitor publishes: all but the domains' tables of names.
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct Counters {
    page: fg_shared,
    domains: [fg_domain; FG_DOMAINS as usize],
}

/// What this process maps of a monitor that it has registered with.
pub struct View {
    _fd: OwnedFd,
    at: NonNull<fg_published>,
    pub domain: usize,
}

impl View {
    pub fn of(running: &Running) -> View {
        let (fd, domain) = register_in_domain(&running.name, block_offset());
        let size = NonZeroUsize::new(size_of::<fg_published>()).unwrap();
        let (read, shared) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping, which stays to the end of the process.
        let at = unsafe { mmap(None, size, read, shared, &fd, 0) }.unwrap();
        View {
            _fd: fd,
            at: at.cast(),
            domain: domain as usize,
        }
    }

    pub fn read<T: FromBytes>(&self, offset: usize) -> T {
        assert!(offset + size_of::<T>() <= size_of::<fg_published>());
        // SAFETY: mapped, and copied as bytes, of which each may change at any time.
        let bytes: Vec<u8> = (offset..offset + size_of::<T>())
            .map(|i| unsafe { self.at.cast::<u8>().add(i).read_volatile() })
            .collect();
        T::read_from_bytes(&bytes).unwrap()
    }

    fn now(&self) -> Counters {
        self.read(0)
    }

    /// Whether the programs of that domain are told the name.
    fn names(&self, domain: usize, name: u32) -> bool {
        let table = match domain {
            0 => offset_of!(fg_published, page.off_cpu),
            _ => {
                offset_of!(fg_published, off_cpu) + domain * size_of::<[u32; FG_OFF_CPU as usize]>()
            }
        };
        self.read::<[u32; FG_OFF_CPU as usize]>(table)
            .contains(&name)
    }

    /// Whether the programs of that domain are told the name. Those of other domains must not be.
    fn names_only_in(&self, domain: usize, name: u32) -> bool {
        for other in (0..FG_DOMAINS as usize).filter(|&other| other != domain) {
            assert!(
                !self.names(other, name),
                "{name:#x} of {domain} is in {other}"
            );
        }
        self.names(domain, name)
    }

    /// What the programs of that domain poll.
    fn polled_in(&self, domain: usize) -> u32 {
        match domain {
            0 => self.machine(),
            _ => self.now().domains[domain].num_preempted_cs,
        }
    }

    pub fn machine(&self) -> u32 {
        self.now().page.num_preempted_cs
    }

    pub fn own(&self) -> u32 {
        self.now().domains[self.domain].num_preempted_cs
    }

    fn number_of(&self, uid: u32) -> usize {
        self.number_with(FG_DOMAIN_USER, uid.into())
    }

    fn number_with(&self, kind: u32, id: u64) -> usize {
        let key = u64::from(kind) << KIND_SHIFT | id;
        let domains = self.now().domains;
        domains.iter().position(|domain| domain.key == key).unwrap()
    }

    /// That of the programs that may use this CPU alone.
    fn of_cpu(&self, cpu: usize) -> fg_domain {
        self.now().domains[self.number_with(FG_DOMAIN_CPUSET, 1 << cpu)]
    }

    fn domain_of(&self, uid: u32) -> fg_domain {
        self.now().domains[self.number_of(uid)]
    }

    fn of_user(&self, uid: u32) -> u32 {
        self.domain_of(uid).num_preempted_cs
    }

    /// That it has risen so often from 0 is there to be seen also where this thread runs only while the counter is up.
    fn wait_for_rises(&self, what: &str, rises: impl Fn(&View) -> u64) {
        let enough = rises(self) + 20;
        self.wait_for(what, |v| rises(v) >= enough);
    }

    pub fn wait_for(&self, what: &str, wanted: impl Fn(&View) -> bool) {
        let deadline = Instant::now() + timeout();
        while !wanted(self) {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// A monitor with a domain for each user, and its counters; None: there can be none here, or nobody can become another user.
fn domains_of_users() -> Option<(Running, View)> {
    let running = start_with_domains(DomainKind::User)?;
    let view = View::of(&running);
    is_root().then_some((running, view))
}

#[test]
fn a_holder_raises_the_counter_of_its_user_and_no_others() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    assert_ne!(view.domain, 0);
    let hog = running.ready("hog");
    let mut stranger = running.ready(&format!("user {STRANGER} spin held"));
    view.wait_for_rises("its user's counter rises and falls", |v| {
        v.domain_of(STRANGER).mode_transitions
    });
    assert!(running.stats().preempted_holders >= 20);
    stranger.kill();
    assert_eq!((view.machine(), view.of_user(STRANGER)), (0, 0));
    let own = view.now().domains[view.domain];
    assert_eq!((own.num_preempted_cs, own.mode_transitions), (0, 0));

    let mut ours = running.ready("spin held");
    view.wait_for("our user's counter rises", |v| v.own() == 1);
    ours.kill();
    assert_eq!((view.machine(), view.own()), (0, 0));
    drop(hog);
}

/// Or its threads that sleep would take the places of another user's, or have the ids of that user's holders.
#[test]
fn who_sleeps_with_a_lock_is_named_to_its_own_user_alone() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    let mut sleeper = running.helper(&format!("user {STRANGER} sleep 1"));
    let (name, mut own) = (sleeper.pid() as u32, running.helper("sleep 1"));
    let own_name = own.pid() as u32;
    for holder in [&mut sleeper, &mut own] {
        holder.hear();
    }
    let named = [(view.number_of(STRANGER), name), (view.domain, own_name)];
    for (domain, name) in named {
        view.wait_for("it is named", |v| v.names_only_in(domain, name));
    }
    for holder in [&mut sleeper, &mut own] {
        holder.kill();
    }
    for (domain, name) in named {
        view.wait_for("it is dead", |v| !v.names_only_in(domain, name));
    }
}

#[test]
fn who_is_preempted_is_named_to_its_own_user_alone() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    let _hog = running.ready("hog");
    let mut victim = running.ready(&format!("user {STRANGER} named held"));
    let name = victim.pid() as u32 | FG_RUNNABLE;
    let stranger = view.number_of(STRANGER);
    for _ in 0..10 {
        view.wait_for("it is preempted", |v| v.names_only_in(stranger, name));
        view.wait_for("it runs", |v| !v.names_only_in(stranger, name));
    }
    victim.kill();
    view.wait_for("it is dead", |v| !v.names_only_in(stranger, name));
}

/// Waits until each has lost its CPU to the other TURNS times, by the monitor's list of who took whose: with a third
/// thread between them, neither ever replaces the other.
fn wait_for_turns(running: &Running, both: &[Helper; 2]) {
    /// The monitor gives a user ten lists a second.
    const LIST_PERIOD: Duration = Duration::from_millis(100);
    const TURNS: usize = 3;
    let socket = SocketName::parse(running.name.as_ref()).unwrap();
    let ids = both.each_ref().map(|holder| holder.pid() as u32);
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    let deadline = Instant::now() + timeout();
    while seen.iter().any(|times| times.len() < TURNS) {
        assert!(Instant::now() < deadline, "no turns: {ids:?}, {seen:?}");
        thread::sleep(LIST_PERIOD);
        for counted in Listing::query(&socket).unwrap().1.counted {
            let one = ids.iter().position(|&id| id == counted.tid);
            if let Some(i) = one.filter(|i| counted.by_tid == ids[1 - i]) {
                seen[i].insert(counted.since_ns);
            }
        }
    }
}

/// Two holders of two users take the CPU from each other: each replaces the other in the machine's counter, and in
/// none of the others.
#[test]
fn holders_of_two_users_take_turns() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    let _alone = take_turns_alone();
    let role = |uid| format!("real-time user {uid} hold-in-turn 500");
    let mut both = [STRANGER, STRANGER + 1].map(|uid| running.ready(&role(uid)));
    for holder in &mut both {
        holder.go();
    }
    wait_for_turns(&running, &both);
    let counters = |v: &View| [v.of_user(STRANGER), v.of_user(STRANGER + 1)];
    for _ in 0..20 {
        view.wait_for("the first waits, alone", |v| counters(v) == [1, 0]);
        view.wait_for("the second waits, alone", |v| counters(v) == [0, 1]);
    }
    for holder in &mut both {
        holder.kill();
    }
    let left = [
        view.machine(),
        view.of_user(STRANGER),
        view.of_user(STRANGER + 1),
    ];
    assert_eq!(left, [0, 0, 0]);
}

#[test]
fn a_child_is_in_its_parents_domain() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    let hog = running.ready("hog");
    let mut parent = running.helper(&format!("user {STRANGER} fork"));
    parent.hear(); // the number of its child
    view.wait_for("it rises", |v| v.of_user(STRANGER) > 0);
    assert_eq!(view.own(), 0);
    parent.kill();
    drop(hog);
}

#[test]
fn who_gets_no_cpu_leaves_its_users_counter_after_a_second() {
    let Some((running, view)) = domains_of_users() else {
        return;
    };
    let mut victim = running.ready(&format!("user {STRANGER} spin held"));
    for round in 1..=2 {
        let mut hog = running.ready("starving hog");
        victim.starve();
        running.wait_until("it ages", |stats| stats.aged >= round);
        // It may be aged before it is starved, and then run once more.
        view.wait_for("the counters to be without it", |v| {
            (v.machine(), v.of_user(STRANGER)) == (0, 0)
        });
        victim.starve_no_more();
        hog.kill();
        running.wait_until("it runs again", |stats| {
            stats.preempted_ns >= round * 1_000_000_000
        });
    }
    victim.kill();
    assert_eq!((view.machine(), view.of_user(STRANGER)), (0, 0));
}

/// The domains that the members of a crowd say they are in.
fn given(crowd: &mut Helper, number: u32) -> Vec<u32> {
    let heard = (0..number).map(|_| crowd.hear());
    heard
        .map(|line| line.strip_prefix("domain ").unwrap().parse().unwrap())
        .collect()
}

fn distinct<T: Ord>(domains: &[T]) -> usize {
    domains.iter().collect::<BTreeSet<_>>().len()
}

/// As the kernel half counts them: from 64 on eight that are a user's own, and eight that several share, by turns.
fn is_shared(domain: u32) -> bool {
    domain >= 64 && domain & 8 != 0
}

/// How many users one class has domains for: those that are anybody's, and its own.
const OWN: u32 = 63 + 8;
/// And how many domains the further ones share.
const SHARED: usize = 8;

#[test]
fn where_all_domains_are_taken_those_without_one_share_some() {
    let Some(running) = start_with_domains(DomainKind::User) else {
        return;
    };
    if !is_root() {
        return;
    }
    let number = FG_DOMAINS - 1;
    let mut crowd = running.helper(&format!("crowd-of-users {STRANGER} {number}"));
    let given = given(&mut crowd, number);
    assert!(
        !given.contains(&0),
        "the machine's counter is for statistics"
    );
    let (shared, own): (Vec<u32>, Vec<u32>) = given.iter().partition(|&&domain| is_shared(domain));
    assert_eq!((distinct(&own), own.len()), (OWN as usize, OWN as usize));
    assert!((2..=SHARED).contains(&distinct(&shared)), "{shared:?}");
    let without = u64::from(number - OWN);
    assert_eq!(running.stats().without_domain, without);

    let view = View::of(&running);
    assert!(!given.contains(&(view.domain as u32)), "of another class");
    assert_eq!(running.stats().without_domain, without);

    // When they have ended, their domains are found free, by a search a second at most.
    crowd.kill();
    let deadline = Instant::now() + timeout();
    loop {
        let others = STRANGER + number;
        let mut crowd = running.helper(&format!("crowd-of-users {others} {}", OWN + 1));
        if !self::given(&mut crowd, OWN + 1).into_iter().all(is_shared) {
            break;
        }
        assert!(Instant::now() < deadline, "no domain becomes free");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A user who has as many ids as there are domains keeps above 0 the counters of the users that it shares one with.
#[test]
fn who_has_many_ids_slows_none_that_come_later() {
    const SAMPLES: usize = 1000;
    let Some(running) = start_with_domains(DomainKind::User) else {
        return;
    };
    if !is_root() {
        return;
    }
    let number = FG_DOMAINS - 1;
    let mut crowd = running.helper(&format!("crowd-of-users {SUBORDINATE} {number}"));
    let taken = given(&mut crowd, number);
    // One of those that hold a domain, and some that found none: two on one CPU, of which one always waits.
    let liars = [0, number, number + 1, number + 2].map(|i| SUBORDINATE + i);
    let _liars = liars.map(|uid| running.ready(&format!("user {uid} spin held")));
    for uid in [0, 1500] {
        let mut victim = running.helper(&format!("user {uid} crowd-of-users {uid} 1"));
        let domain = given(&mut victim, 1)[0];
        let view = View::of(&running);
        view.wait_for("the liars are counted", |v| v.machine() > 1);
        let above = (0..SAMPLES).filter(|_| {
            thread::sleep(Duration::from_millis(1));
            view.polled_in(domain as usize) > 0
        });
        let above = above.count();
        assert!(above * 100 < SAMPLES, "user {uid}: {above} of {SAMPLES}");
        assert!(!taken.contains(&domain), "user {uid}");
    }
}

#[test]
fn subordinate_ids_are_held_against_the_user_who_has_them() {
    const IDS: u32 = 5;
    let Some(running) = start_with_domains(DomainKind::User) else {
        return;
    };
    if !is_root() {
        return;
    }
    let mut owner = running.helper(&format!("user {STRANGER} crowd-of-users {STRANGER} 1"));
    let domain = given(&mut owner, 1)[0];
    let mut range = running.helper(&format!("within {STRANGER} crowd-of-users 1 {IDS}"));
    assert_eq!(given(&mut range, IDS), vec![domain; IDS as usize]);
    // Those that root gives out are users of their own.
    let mut container = running.helper(&format!("within 0 crowd-of-users 1 {IDS}"));
    let given = given(&mut container, IDS);
    assert_eq!(distinct(&given), IDS as usize, "{given:?}");
    assert!(!given.contains(&domain));
}

#[test]
fn programs_share_a_counter_if_they_may_use_the_same_cpus() {
    let Some(running) = start_with_domains(DomainKind::Cpuset) else {
        return;
    };
    let [cpu, other, ..] = allowed_cpus()[..] else {
        return; // one CPU makes one set
    };
    let view = View::of(&running);
    let _elsewhere = running.ready(&format!("cpu {other} spin idle"));
    let hog = running.ready(&format!("cpu {cpu} hog"));
    let mut holders = [0; 2].map(|_| running.ready(&format!("cpu {cpu} spin held")));
    view.wait_for("both are in one counter", |v| {
        v.of_cpu(cpu).num_preempted_cs == 2
    });
    for holder in &mut holders {
        holder.kill();
    }
    assert_eq!((view.machine(), view.of_cpu(cpu).num_preempted_cs), (0, 0));
    assert!(view.now().page.mode_transitions > 0);
    let others = [view.of_cpu(other), view.now().domains[view.domain]];
    assert_ne!(view.domain, 0);
    assert_eq!(others.map(|domain| domain.mode_transitions), [0, 0]);
    drop(hog);
}

/// A control group of version 2 that goes with this.
pub struct Group(PathBuf);

const GROUP_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

impl Group {
    /// Removes what that process, which was killed, has left.
    pub fn remove_those_of(pid: u32) {
        let its = format!("flexguard-test-{pid}-");
        for entry in GROUP_MOUNTS.into_iter().flat_map(fs::read_dir).flatten() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(&its) {
                drop(Group(entry.path()));
            }
        }
    }

    /// None where there are no control groups of version 2, or no privilege. Then the test is skipped.
    pub fn new() -> Option<Group> {
        let group = Group::make();
        if group.is_none() {
            say_skipped("needs to make a control group of version 2");
        }
        group
    }

    fn make() -> Option<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flexguard-test-{}-{number}", process::id());
        let mount = GROUP_MOUNTS
            .into_iter()
            .map(PathBuf::from)
            .find(|m| m.join("cgroup.procs").exists())?;
        let path = mount.join(name);
        fs::create_dir(&path).ok().map(|()| Group(path))
    }

    /// As if that user had made it.
    pub fn give_to(&self, uid: u32) {
        chown(&self.0, Some(uid), Some(uid)).unwrap();
    }

    /// In that role, which it begins in this group.
    pub fn helper(&self, running: &Running, role: &str) -> Helper {
        let mut helper = running.helper(&format!("wait {role}"));
        assert_eq!(helper.hear(), "waiting");
        fs::write(self.0.join("cgroup.procs"), helper.pid().to_string()).unwrap();
        helper.go();
        helper
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        while let Err(error) = fs::remove_dir(&self.0)
            && error.kind() == ErrorKind::ResourceBusy
        {
            thread::sleep(Duration::from_millis(1)); // until the last process has ended
        }
    }
}

#[test]
fn a_holder_raises_the_counter_of_its_control_group_and_no_others() {
    let Some(running) = start_with_domains(DomainKind::Cgroup) else {
        return;
    };
    let Some(group) = Group::new() else { return };
    let view = View::of(&running);
    assert_ne!(view.domain, 0);
    let hog = running.ready("hog");
    let mut outside = running.ready("spin held");
    view.wait_for("our group's counter rises", |v| v.own() == 1);
    outside.kill();
    assert_eq!((view.machine(), view.own()), (0, 0));

    let mut inside = group.helper(&running, "spin held");
    assert_eq!(inside.hear(), "ready");
    let own = |v: &View| v.now().domains[v.domain].mode_transitions;
    let before = own(&view);
    view.wait_for_rises("the machine's counter rises and falls", |v| {
        v.now().page.mode_transitions
    });
    assert_eq!(own(&view), before);
    inside.kill();
    assert_eq!((view.machine(), view.own()), (0, 0));
    drop(hog);
}
