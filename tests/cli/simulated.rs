// SPDX-License-Identifier: MIT
//! `flexguard bench ... --machine`: a machine that is simulated. `flexguard bench machine` makes a file of this one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::fake::Fake;
use crate::common::*;
use serde_json::{Value, json as object};

/// An installation whose simulators are shell scripts, and a machine file in it. `script` as in Fake.
fn fake(script: &str) -> (Fake, String) {
    let fake = Fake::new(script);
    let worker = fs::read_to_string(fake.path().join("libexec/flexguard/fg-bench")).unwrap();
    let describe =
        "if [ $1 = --describe ]; then echo '{\"machine\":\"large\",\"cpus\":104}'; exit; fi\n";
    let simulator = worker.replacen('\n', &format!("\n{describe}"), 1);
    for lock in ["posix", "a"] {
        let path = fake.path().join(format!("libexec/flexguard/fg-sim-{lock}"));
        fs::write(&path, &simulator).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let machine = fake.path().join("large.toml");
    fs::write(&machine, "cores = 104\n").unwrap();
    let machine = machine.display().to_string();
    (fake, machine)
}

fn simulate(fake: &Fake, machine: &str, args: &str) -> Command {
    let args = format!("shm --machine {machine} {args}");
    fake.bench(&words(&args))
}

fn fails(output: &Output, parts: &[&str]) {
    assert_ne!(output.status.code(), Some(0));
    let said = stderr(output);
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn a_round_is_a_seed_and_a_factor_is_of_that_machine() {
    let (fake, machine) = fake("result 1");
    let output = simulate(
        &fake,
        &machine,
        "--locks posix,a --threads 2x --rounds 2 --noise",
    )
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let call = |lock: &str, seed: u32| {
        format!(
            "shm --lock {lock} --threads 208 --seconds 0.02 --warmup 0.006 --machine {machine} --host-limit 300 \
             --virtual-limit 2.3 --seed {seed}"
        )
    };
    let expected = [
        ("posix", 1),
        ("a", 1),
        ("posix", 1001),
        ("a", 2),
        ("posix", 1002),
        ("posix", 2),
    ];
    assert_eq!(fake.calls(), expected.map(|(lock, seed)| call(lock, seed)));
}

#[test]
fn every_output_says_that_it_is_simulated() {
    let (fake, machine) = fake("result 1");
    let file = |name: &str| fake.path().join(name);
    for name in ["r.csv", "r.md"] {
        let args = format!(
            "--locks posix,a --threads 4 --rounds 1 --seconds 0.5 --monitor off -o {} --html {} --export {} --plots {}",
            file("r.json").display(),
            file("r.html").display(),
            file(name).display(),
            file("plots").display()
        );
        let output = simulate(&fake, &machine, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(
            text.starts_with(&format!("simulated machine large ({machine}) | 104")),
            "{text}"
        );
    }
    assert!(
        fake.calls()[0].contains("--seconds 0.5 ") && fake.calls()[0].contains(" --unmonitored ")
    );
    for (name, part) in [
        (
            "r.html",
            format!("Simulated, not measured: machine file {machine}"),
        ),
        ("r.csv", format!(",{machine}\r\n")),
        ("r.md", "(simulated: large)".into()),
        ("plots/throughput.svg", "simulated: large".into()),
    ] {
        let text = fs::read_to_string(file(name)).unwrap();
        assert!(text.contains(&part), "{name}: {text}");
    }
    let result = json(&fs::read_to_string(file("r.json")).unwrap());
    let simulated = &result["machine"]["simulated"];
    assert_eq!(
        (&simulated["machine"], &simulated["file"]),
        (&object!("large"), &object!(machine))
    );
    assert_eq!(result["machine"]["hardware_contexts"], 104);
    assert_eq!(result["monitor"]["active"], false);
    assert_eq!(result["results"][0]["rounds"][0].get("distance"), None);
}

#[test]
fn a_lock_that_never_ends_costs_its_own_cells_only() {
    let (fake, machine) = fake(
        "[ $lock = posix ] || { echo 'fg-sim: a thread does not end' >&2; exit 4; }; result 1",
    );
    let output = simulate(
        &fake,
        &machine,
        "--locks posix,a --threads 1,2 --rounds 2 --json",
    )
    .output()
    .unwrap();
    fails(
        &output,
        &["a, 1 thread (and 1 others)", "a thread does not end"],
    );
    let result = json(&stdout(&output));
    let rounds = |i: usize| result["results"][i]["rounds"].as_array().unwrap().len();
    assert_eq!([0, 1, 2, 3].map(rounds), [2, 0, 2, 0]);
}

#[test]
fn ctrl_c_keeps_the_seeds_that_ended() {
    let (fake, machine) =
        fake("if [ $n = 2 ]; then echo begun >$dir/fifo; sleep 1000; fi; result $n");
    let mut command = simulate(&fake, &machine, "--locks a --threads 1 --rounds 3");
    let (child, _) = fake.begin(&mut command);
    kill(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    let text = stdout(&output);
    assert!(
        text.contains("INCOMPLETE") && text.contains("1.00 (1.00-1.00)"),
        "{text}"
    );
}

#[test]
fn what_needs_hardware_is_refused() {
    let (fake, machine) = fake("result 1");
    let refused = |args: &str, parts: &[&str]| {
        let output = fake
            .bench(&words(&format!("{args} --machine {machine}")))
            .output()
            .unwrap();
        fails(&output, parts);
    };
    refused(
        "turns --locks a",
        &["the interposer of 'a' is not simulated", "--locks posix"],
    );
    refused(
        "shm --interposed --locks a",
        &["the interposer of 'a' is not simulated"],
    );
    refused(
        "shm --locks b",
        &["'b' has no simulator", "make simulators"],
    );
    refused("shm --locks peers", &["none of the locks has a simulator"]);
    refused(
        "shm --threads 40x",
        &["--threads: not a number from 1 to 4096"],
    );
    refused(
        "exec --locks a -- true",
        &["unexpected argument '--machine'"],
    );
    let output = simulate(&fake, "nowhere", "").output().unwrap();
    fails(&output, &["there is no machine called 'nowhere'"]);
    assert!(!fake.has_run());
}

#[test]
fn scenes_are_simulated_but_for_programs() {
    let (fake, machine) = fake("result 1");
    let scenes = fake.path().join("two.toml");
    let text = "version = 1\ntitle = \"two\"\n\
        [[scene]]\nname = \"pair\"\nworkload = \"shm\"\nlocks = [\"posix\", \"a\"]\nthreads = \"2x\"\nseconds = 7\nrounds = 1\n\
        [[scene]]\nname = \"job\"\nprogram = [\"true\"]\nlocks = [\"posix\"]\n";
    fs::write(&scenes, text).unwrap();
    let dir = fake.path().join("results");
    let args = format!(
        "scenes {} -o {} --machine {machine}",
        scenes.display(),
        dir.display()
    );
    let output = fake.bench(&words(&args)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("left out: job: a program does not run on a simulated machine"),
        "{text}"
    );
    assert!(
        fake.calls()[0].starts_with("shm --lock posix --threads 208 --seconds 0.02 "),
        "{:?}",
        fake.calls()
    );
    let record = json(&fs::read_to_string(dir.join("pair.json")).unwrap());
    assert_eq!(record["title"], "pair (simulated: large)");
    // Another file of the same name is another machine.
    fs::write(&machine, "cores = 105\n").unwrap();
    fails(
        &fake.bench(&words(&args)).output().unwrap(),
        &["it ran on another machine"],
    );
}

/// The simulators that are built.
fn bench(args: &str) -> Output {
    flexguard().arg("bench").args(words(args)).output().unwrap()
}

#[test]
fn the_same_seeds_give_the_same_result_on_a_real_simulator() {
    let args = "server --machine cloud-8 --locks posix,flexguard --threads 16 --seconds 0.004 --warmup 0.001 --rounds 2 --json";
    let one = || {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        json(&stdout(&output))["results"].clone()
    };
    let (first, second) = (one(), one());
    let values = |results: &Value| -> Vec<Value> {
        let entries = results.as_array().unwrap().iter();
        entries.map(|e| e["measures"].clone()).collect()
    };
    assert_eq!(values(&first), values(&second));
    let throughput = |results: &Value| results[0]["measures"]["throughput_ops_per_ms"].clone();
    assert!(throughput(&first)["median"].as_f64().unwrap() > 0.0);
    assert_ne!(throughput(&first)["min"], throughput(&first)["max"]);
}

#[test]
fn nonsense_in_a_machine_file_is_named_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.toml");
    for (text, part) in [
        ("cores = 4\nspeed = 3\n", "line 2: no key is called 'speed'"),
        (
            "pause = -1\n",
            "line 1: pause is not a number from 1 to 1000",
        ),
        ("sockets = 16\ncomplexes = 64\n", "the model holds 512"),
    ] {
        fs::write(&file, text).unwrap();
        fails(
            &bench(&format!("shm --machine {}", file.display())),
            &["--machine: machine file", part],
        );
    }
    fails(
        &bench(&format!("shm --machine {}/none.toml", dir.path().display())),
        &["No such file"],
    );
}

#[test]
fn this_machine_becomes_a_file_that_the_simulator_reads() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("here.toml");
    let output = bench(&format!("machine -o {}", file.display()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let contexts = std::thread::available_parallelism().unwrap();
    let said = stdout(&output);
    assert!(
        said.contains(&format!("{contexts} hardware contexts")),
        "{said}"
    );
    let text = fs::read_to_string(&file).unwrap();
    let source = |key: &str| {
        let line = text.lines().find(|l| l.starts_with(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("{key} in {text}")).to_owned()
    };
    for key in words("pause atomic clock syscall switch") {
        assert!(source(key).contains("# measured"), "{}", source(key));
    }
    assert!(source("timer_set").contains("# assumed, as "), "{text}");
    let simulator = prefix().join("libexec/flexguard/fg-sim-posix");
    assert!(Path::new(&simulator).is_file());
    let run = bench(&format!(
        "shm --machine {} --locks posix --threads 2 --seconds 0.002 --warmup 0 --rounds 1 --json",
        file.display()
    ));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
}
