// SPDX-License-Identifier: MIT
//! `flexguard profile --pid` of a program that runs under glibc's locks.

use std::process::Command;

use crate::common::daemon::{Process, check_schema};
use crate::common::*;
use crate::profile::{compiled, number};
use serde_json::Value;

/// A program whose every wait is known, compiled without frame pointers.
const WAITS: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
struct part { int filler[6]; pthread_mutex_t lock; };
static struct { long before; struct part parts[3]; } pool = {.parts[1].lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
__attribute__((noinline)) static void lock_and_sleep(void)
{
	pthread_mutex_lock(&pool.parts[1].lock);
	usleep(2000);
	pthread_mutex_unlock(&pool.parts[1].lock);
	__asm__ volatile("");
}
static void *lock(void *unused)
{
	for (;;)
		lock_and_sleep();
	return unused;
}
static void *write_lock(void *unused)
{
	for (;;) {
		pthread_rwlock_wrlock(&rwlock);
		usleep(2000);
		pthread_rwlock_unlock(&rwlock);
	}
	return unused;
}
static void *wait_for_condition(void *unused)
{
	pthread_mutex_lock(&of_condition);
	for (;;)
		pthread_cond_wait(&condition, &of_condition);
	return unused;
}
static void *wait_for_semaphore(void *unused)
{
	for (;;)
		sem_wait(&semaphore);
	return unused;
}
static void *meet(void *late)
{
	for (;;) {
		if (late) {
			usleep(2000);
			pthread_cond_signal(&condition);
			sem_post(&semaphore);
		}
		pthread_barrier_wait(&barrier);
	}
	return late;
}
int main(void)
{
	void *(*of[])(void *) = {lock, lock, write_lock, write_lock, wait_for_condition, wait_for_semaphore, meet};
	pthread_t thread;

	sem_init(&semaphore, 0, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		pthread_create(&thread, NULL, of[i], NULL);
	meet(&thread);
	return 0;
}
"#;

fn functions(site: &Value) -> Vec<&str> {
    let stack = site["stack"].as_array().unwrap().iter();
    stack.filter_map(|place| place["symbol"].as_str()).collect()
}

#[test]
fn waits_of_a_program_under_glibcs_locks_are_seen_from_outside() {
    let name = "waits_of_a_program_under_glibcs_locks_are_seen_from_outside";
    if !as_root() {
        return skipped(name, "needs root");
    }
    if !bpf(name) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("waits");
    compiled(WAITS, &["-fomit-frame-pointer"], &program);
    let process = Process::start(&mut Command::new(&program));
    let report = dir.path().join("report");
    let mut command = flexguard();
    command.args(["profile", "--json", "--seconds", "3", "--pid"]);
    command
        .arg(process.pid().to_string())
        .arg("-o")
        .arg(&report);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seen = json(&stdout(&output));
    check_schema("profile-attached", std::slice::from_ref(&seen));
    let elapsed = number(&seen["elapsed_seconds"]);
    for (name, kind, place) in [
        ("pool.parts[1].lock", Some("mutex"), "lock_and_sleep"),
        ("rwlock", Some("rw-lock"), "write_lock"),
        (
            "condition",
            Some("condition-variable"),
            "wait_for_condition",
        ),
        ("barrier", Some("barrier"), "meet"),
        // glibc's sem_wait is left by a jump: the function that waits has no exported name.
        ("semaphore", None, "wait_for_semaphore"),
    ] {
        let waits = seen["waits"].as_array().unwrap().iter();
        let of: Vec<&Value> = waits.filter(|of| of["name"] == name).collect();
        let of = only_of(&of, &seen);
        // One thread waits at nearly any time; the samples say so, too.
        let (seconds, longest) = (number(&of["seconds"]), number(&of["longest_us"]));
        assert!(seconds > 0.0 && seconds < 2.2 * elapsed, "{name}: {of}");
        assert!(longest / 1e6 <= seconds * 1.001, "{name}: {of}");
        assert!(of["waits"].as_u64().unwrap() > 0, "{name}: {of}");
        if let Some(kind) = kind {
            assert_eq!(of["kind"], kind, "{of}");
        }
        let sites = of["sites"].as_array().unwrap();
        assert!(!sites.is_empty(), "{of}");
        assert!(
            sites.iter().all(|site| functions(site).contains(&place)),
            "{place}: {of}"
        );
    }
    let folded = std::fs::read_to_string(report.join("wait.folded")).unwrap();
    assert!(
        folded.contains(";lock_and_sleep;pthread_mutex_lock;mutex pool.parts[1].lock "),
        "{folded}"
    );
    assert!(report.join("profile.pb.gz").exists() && report.join("perfetto.json").exists());
}

fn only_of<'a>(found: &[&'a Value], all: &Value) -> &'a Value {
    assert_eq!(found.len(), 1, "{all}");
    found[0]
}
