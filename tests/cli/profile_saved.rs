// SPDX-License-Identifier: MIT
//! Profiles that `flexguard profile -o` has saved: opened again, compared, and in the formats of other tools.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::daemon::check_schema;
use crate::common::*;
use crate::profile::{number, profile};
use serde_json::Value;

/// The directory with the profile of that role of the tests' own program.
fn saved(role: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let output = profile(role, &["-o", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(23), "{}", stderr(&output));
    dir
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

/// The nanoseconds of all folded stacks.
fn folded_ns(dir: &Path, name: &str) -> u64 {
    let text = read(dir, name);
    let of = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    text.lines().map(of).sum()
}

/// Reads the messages by the numbers of profile.proto alone, checks every reference, and prints sums and texts.
const PPROF: &str = r#"
import gzip, json, sys

def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    found = {}
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            assert key & 7 == 2, key
            length = varint()
            value = data[at:at + length]
            at += length
        found.setdefault(key >> 3, []).append(value)
    return found

def numbers(values):
    all = []
    for value in values:
        if isinstance(value, int):
            all.append(value)
            continue
        number = shift = 0
        for byte in value:
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                all.append(number)
                number = shift = 0
    return all

one = lambda message, key: message.get(key, [0])[0]
profile = fields(gzip.open(sys.argv[1]).read())
texts = [text.decode() for text in profile[6]]
assert texts[0] == ''
types = [[texts[one(fields(t), n)] for n in (1, 2)] for t in profile[1]]
files = {one(fields(m), 1): texts[one(fields(m), 5)] for m in profile.get(3, [])}
functions = {one(fields(f), 1): texts[one(fields(f), 2)] for f in profile[5]}
places = {}
for location in map(fields, profile[4]):
    assert one(location, 2) in files or one(location, 2) == 0
    places[one(location, 1)] = [functions[one(fields(line), 1)] for line in location[4]]
stacks = []
for sample in map(fields, profile[2]):
    values = numbers(sample[2])
    assert len(values) == len(types)
    stack = [name for id in numbers(sample[1]) for name in places[id]]
    labels = {texts[one(fields(l), 1)]: texts[one(fields(l), 2)] for l in sample[3]}
    stacks.append({'values': values, 'stack': stack, 'labels': labels})
print(json.dumps({'types': types, 'stacks': stacks, 'files': list(files.values()), 'default': texts[one(profile, 14)]}))
"#;

fn pprof(dir: &Path) -> Value {
    let mut python = Command::new("python3");
    python
        .args(["-c", PPROF])
        .arg(dir.join("profile.pb.gz"))
        .stderr(Stdio::piped());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

#[test]
fn pprof_and_perfetto_say_what_the_folded_stacks_say() {
    let dir = saved("contend");
    let dir = dir.path();
    let (waited, held) = (folded_ns(dir, "wait.folded"), folded_ns(dir, "hold.folded"));
    assert!(
        waited >= 20_000_000 && held >= 20_000_000,
        "{waited} {held}"
    );
    let line = read(dir, "wait.folded");
    let end = format!(";the_place_that_locks;mutex cli::profile::SHARED {waited}\n");
    assert!(line.ends_with(&end), "{line}");

    let profile = pprof(dir);
    let names: Vec<&str> = (profile["types"].as_array().unwrap().iter())
        .map(|of| of[0].as_str().unwrap())
        .collect();
    assert_eq!(names, ["acquisitions", "wait", "hold"]);
    assert_eq!(profile["types"][1][1], "nanoseconds");
    assert_eq!(profile["default"], "wait");
    let stacks = profile["stacks"].as_array().unwrap();
    let sum = |i: usize| {
        stacks
            .iter()
            .map(|s| s["values"][i].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!((sum(1), sum(2)), (waited, held), "{profile}");
    let waiter = stacks.iter().find(|s| s["values"][1] != 0).unwrap();
    assert_eq!(waiter["stack"][0], "mutex cli::profile::SHARED");
    assert_eq!(waiter["stack"][1], "the_place_that_locks");
    assert_eq!(waiter["labels"]["lock"], "mutex cli::profile::SHARED");

    let trace = json(&read(dir, "perfetto.json"));
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = |kind: &str| {
        let of = move |e: &&Value| e["ph"] == "X" && e["cat"] == kind;
        events.iter().filter(of).collect::<Vec<&Value>>()
    };
    let mut waits = slices("wait");
    // Each slice lies within the one before, its caller.
    waits.sort_by(|a, b| number(&b["dur"]).total_cmp(&number(&a["dur"])));
    assert!(
        waits
            .iter()
            .all(|e| e["ts"] == 0.0 && e["dur"] == waits[0]["dur"])
    );
    assert_eq!(number(&waits[0]["dur"]), waited as f64 / 1e3);
    let name = waits.iter().any(|e| {
        e["name"]
            .as_str()
            .unwrap()
            .starts_with("the_place_that_locks")
    });
    assert!(name, "{waits:?}");
    let tracks = events.iter().filter(|e| e["name"] == "thread_name");
    let tracks: Vec<&Value> = tracks.map(|e| &e["args"]["name"]).collect();
    assert!(
        tracks
            .iter()
            .any(|t| *t == "wait: mutex cli::profile::SHARED"),
        "{tracks:?}"
    );
}

#[test]
fn a_saved_profile_opens_again_as_it_was() {
    let dir = saved("contend");
    let again = tempfile::tempdir().unwrap();
    let paths = [dir.path(), again.path()].map(|path| path.to_str().unwrap());
    let output = run(["profile", "--json", "--open", paths[0], "-o", paths[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), read(dir.path(), "profile.json"));
    for file in [
        "profile.json",
        "wait.folded",
        "hold.folded",
        "wait.svg",
        "index.html",
    ] {
        assert_eq!(read(dir.path(), file), read(again.path(), file), "{file}");
    }
    assert_eq!(pprof(dir.path()), pprof(again.path()));
    let file = dir.path().join("profile.json");
    let text = stdout(&run(["profile", "--open", file.to_str().unwrap()]));
    for part in [
        "cli::profile::SHARED",
        "50.0 %",
        "of waiting: the_place_that_locks",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn two_profiles_are_compared_lock_by_lock() {
    let (before, after) = (saved("count"), saved("contend"));
    let paths = [before.path(), after.path()].map(|path| path.to_str().unwrap());
    let output = run(["profile", "--compare", paths[0], paths[1], "--json"]);
    let compared = json(&stdout(&output));
    check_schema("profile-comparison", std::slice::from_ref(&compared));
    let locks = compared["locks"].as_array().unwrap();
    assert_eq!(locks.len(), 2, "{compared}");
    let of = |name: &str| locks.iter().find(|lock| lock["name"] == name).unwrap();
    let (shared, other) = (of("cli::profile::SHARED"), of("cli::profile::OTHER"));
    assert_eq!(shared["before"]["acquisitions"], 40_000);
    assert_eq!(shared["after"]["acquisitions"], 2);
    assert_eq!(shared["after"]["contended"], 1);
    assert_eq!(other["before"]["acquisitions"], 8);
    assert!(other["after"].is_null(), "{compared}");
    let text = stdout(&run(["profile", "--compare", paths[0], paths[1]]));
    let row = text.lines().find(|line| line.contains("OTHER")).unwrap();
    assert!(row.trim_end().ends_with("8      -"), "{text}");
    // With itself nothing has changed.
    let same = json(&stdout(&run([
        "profile",
        "--json",
        "--compare",
        paths[1],
        paths[1],
    ])));
    let lock = &same["locks"][0];
    assert_eq!(lock["before"], lock["after"]);
}

#[test]
fn what_is_no_saved_profile_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.json");
    let path = file.to_str().unwrap();
    let refused = |why: &str| {
        let there = dir.path().to_str().unwrap();
        for options in [
            &["--open", path][..],
            &["--open", there],
            &["--compare", path, path],
        ] {
            let output = run([&["profile"], options].concat());
            assert_eq!(output.status.code(), Some(125), "{options:?}");
            let said = stderr(&output);
            assert!(
                said.contains(why) && said.contains("  give the directory"),
                "{said}"
            );
        }
    };
    refused("No such file");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write("no JSON");
    refused("it is no result of flexguard profile");
    write(r#"{"schema": "flexguard-profile-attached/1"}"#);
    refused("it is a flexguard-profile-attached/1, and this command opens flexguard-profile/1");
    write(r#"{"schema": "flexguard-profile/1", "version": "0.9.0"}"#);
    refused("it is damaged, or no flexguard-profile/1");
    for options in [
        &["--open", path, "true"][..],
        &["--compare", path],
        &["--compare", path, path, "--open", path],
        &["--open", path, "--lock", "posix"],
    ] {
        let output = run([&["profile"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
}
