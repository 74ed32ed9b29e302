// SPDX-License-Identifier: MIT
//! `flexguard profile` of a program whose functions the compiler has divided.

use std::process::Command;

use crate::common::*;
use crate::profile::{compiled, locks, only};

/// Functions that the compiler divides, or changes for their callers.
const SPLIT: &str = r#"
#include <pthread.h>
static pthread_mutex_t in_cold = PTHREAD_MUTEX_INITIALIZER, in_part = PTHREAD_MUTEX_INITIALIZER,
		       in_isra = PTHREAD_MUTEX_INITIALIZER;
static volatile int always = 1, sum;

__attribute__((cold, noinline)) static void is_cold(void)
{
	sum++;
}

__attribute__((noinline)) void splits(int n)
{
	sum += n;
	if (always) {
		is_cold();
		pthread_mutex_lock(&in_cold);
		pthread_mutex_unlock(&in_cold);
		is_cold();
	}
	sum -= n;
}

static void seldom(int n)
{
	if (__builtin_expect(n == 0, 1))
		return;
	pthread_mutex_lock(&in_part);
	for (int i = 0; i < n; i++)
		sum += i * n;
	pthread_mutex_unlock(&in_part);
	for (int i = 0; i < n; i++)
		sum -= i * n;
}

__attribute__((noinline)) static void is_changed(int n, int unused)
{
	(void)unused;
	pthread_mutex_lock(&in_isra);
	sum += n;
	pthread_mutex_unlock(&in_isra);
	sum++;
}

__attribute__((noinline)) void calls(int n)
{
	seldom(n);
	is_changed(sum, n);
	sum++;
}

int main(int argc, char **argv)
{
	(void)argv;
	splits(argc);
	calls(argc);
	seldom(sum);
	is_changed(argc, sum);
	return 0;
}
"#;

/// By debug information these parts have the name and the begin of the function that the source has.
#[test]
fn a_part_of_a_function_has_its_own_name_and_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("split");
    // Without -fipa-cp the part has the same name on every version of the compiler.
    compiled(SPLIT, &["-O2", "-fno-ipa-cp"], &program);
    let output = run(["profile", "--json", "--", program.to_str().unwrap()]);
    let result = json(&stderr(&output));
    let table = Command::new("nm").arg("-S").arg(&program).output().unwrap();
    let table = stdout(&table);
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
    for (lock, name, line) in [
        ("in_cold", "splits.cold", "&in_cold"),
        ("in_part", "seldom.part.0", "&in_part"),
        ("in_isra", "is_changed.isra.0", "&in_isra"),
    ] {
        let symbol = table
            .lines()
            .map(words)
            .find(|line| line.last() == Some(&name));
        let symbol = symbol.unwrap_or_else(|| panic!("the compiler made no {name}: {table}"));
        let (begin, size) = (hexadecimal(symbol[0]), hexadecimal(symbol[1]));
        let lock = locks(only(&result["processes"]))
            .iter()
            .find(|l| l["name"] == lock);
        let place = &lock.unwrap()["sites"][0]["stack"][0];
        assert_eq!(place["symbol"], name, "{place}");
        let address = place["module_address"].as_str().unwrap();
        let offset = hexadecimal(address.trim_start_matches("0x")) - begin;
        assert!(offset < size, "{place}");
        assert_eq!(place["offset"], offset, "{place}");
        // And the line is that of the call.
        let at = place["line"].as_u64().unwrap() as usize - 1;
        let text = SPLIT.lines().nth(at).unwrap();
        assert!(text.contains(line), "{place}: {text}");
    }
}
