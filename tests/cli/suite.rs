// SPDX-License-Identifier: MIT
//! `flexguard bench paper`, `compare`, `report` and `overhead`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;

use crate::common::fake::Fake;
use crate::common::*;
use serde_json::Value;

/// A small paper: three microbenchmarks of two locks.
const SMALL: &str =
    "paper --quick --seconds 0.01 --rounds 6 --locks posix,a --only shm,hashtable-hogs,runnable -o";

fn paper(fake: &Fake, dir: &Path, more: &[&str]) -> Output {
    let args = [&words(SMALL)[..], &[dir.to_str().unwrap()], more].concat();
    fake.bench(&args).output().unwrap()
}

fn result(path: &Path) -> Value {
    json(&fs::read_to_string(path).unwrap())
}

#[test]
fn the_paper_leaves_a_report_figures_and_data() {
    let fake = Fake::new("result $((100 + n % 7))");
    let dir = fake.path().join("out");
    let output = paper(&fake, &dir, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for name in ["shm", "hashtable-hogs", "runnable"] {
        let result = result(&dir.join(format!("{name}.json")));
        assert_eq!(
            (&result["schema"], &result["complete"]),
            (&"flexguard-bench/2".into(), &true.into())
        );
    }
    for figure in ["fig2-raw", "fig3b-hogs", "fig5a-runnable", "fig5c-spins"] {
        let svg = fs::read_to_string(dir.join(format!("plots/{figure}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"),
            "{figure}"
        );
        let png = fs::read(dir.join(format!("plots/{figure}.png"))).unwrap();
        assert!(
            png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 2000,
            "{figure}"
        );
    }
    let text = stderr(&output);
    let mut ended = text.lines().filter(|l| l.contains(" is measured: run "));
    assert!(ended.next().is_some_and(|l| l.contains(": shm ")), "{text}");
    assert_eq!(ended.count(), 2, "{text}");
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("Fig. 5a") && page.contains("How to reproduce"));
    assert!(
        stdout(&output).contains("report.html has everything"),
        "{}",
        stdout(&output)
    );
}

/// The fifth run tells us that it has begun, and never ends; the second paper has nothing to wait for.
#[test]
fn an_interrupted_paper_is_continued() {
    let fake =
        Fake::new("if [ $n = 5 ]; then echo begun >$dir/fifo; sleep 1000; fi; result $((100 + n))");
    let dir = fake.path().join("out");
    let args = [&words(SMALL)[..], &[dir.to_str().unwrap()]].concat();
    let (child, _) = fake.begin(&mut fake.bench(&args));
    kill(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    assert!(
        stderr(&output).contains("run the same command again to continue"),
        "{}",
        stderr(&output)
    );
    assert!(dir.join("report.html").is_file());

    let output = paper(&fake, &dir, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shm = result(&dir.join("shm.json"));
    assert_eq!(shm["complete"], true);
    // The four runs before the interruption are still there, and were not run again.
    let first: Vec<f64> = shm["results"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|e| e["rounds"].as_array().unwrap())
        .map(|r| r["values"]["throughput_ops_per_ms"].as_f64().unwrap())
        .filter(|v| *v < 105.0)
        .collect();
    assert_eq!(first.len(), 4, "{first:?}");
    let runs = fake.order().len();
    let output = paper(&fake, &dir, &[]);
    assert_eq!((output.status.code(), fake.order().len()), (Some(0), runs));
}

#[test]
fn a_paper_of_something_else_is_not_continued() {
    let fake = Fake::new("result $((100 + n))");
    let dir = fake.path().join("out");
    assert_eq!(paper(&fake, &dir, &[]).status.code(), Some(0));
    let runs = fake.order().len();
    fake.change("result 7 # built anew");
    let output = paper(&fake, &dir, &[]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("rebuilt") && stderr(&output).contains("--fresh"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fake.order().len(), runs);
    let output = paper(&fake, &dir, &["--fresh"]);
    assert_eq!(
        (output.status.code(), fake.order().len()),
        (Some(0), 2 * runs),
        "{}",
        stderr(&output)
    );
}

/// A record that a full disk or a copy cut short is named and stays; everything else is measured, or kept.
#[test]
fn a_damaged_record_is_left_out_and_the_rest_goes_on() {
    let fake = Fake::new("result $((100 + n))");
    let dir = fake.path().join("out");
    assert_eq!(paper(&fake, &dir, &[]).status.code(), Some(0));
    let damaged = dir.join("shm.json");
    let whole = fs::read_to_string(&damaged).unwrap();
    let half = &whole[..whole.len() / 2];
    fs::write(&damaged, half).unwrap();
    fs::remove_file(dir.join("hashtable-hogs.json")).unwrap();
    let kept = fs::read_to_string(dir.join("runnable.json")).unwrap();
    let output = paper(&fake, &dir, &[]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let told = |l: &str| l.contains("left out") && l.contains("shm.json");
    assert!(text.lines().any(told), "{text}");
    assert!(stdout(&output).lines().any(told), "{}", stdout(&output));
    assert_eq!(fs::read_to_string(&damaged).unwrap(), half);
    assert_eq!(result(&dir.join("hashtable-hogs.json"))["complete"], true);
    let results = |text: &str| json(text)["results"].clone();
    let now = fs::read_to_string(dir.join("runnable.json")).unwrap();
    assert_eq!(results(&now), results(&kept));
    assert_eq!(paper(&fake, &dir, &["--fresh"]).status.code(), Some(0));
    assert_eq!(result(&damaged)["complete"], true);
}

/// A lock that fails with many threads has its other points; a figure that nothing was measured for is named.
#[test]
fn a_number_of_threads_that_a_lock_refuses_costs_that_point_alone() {
    let worker =
        "if [ $lock,$threads = a,8 ]; then echo 'a: 4 threads at most' >&2; exit 1; fi; result 100";
    let fake = Fake::new(worker);
    let file = fake.path().join("t.toml");
    let text = "version = 1\ntitle = \"few threads\"\n[[scene]]\nname = \"few\"\nworkload = \"shm\"\n\
                locks = [\"posix\", \"a\"]\nthreads = [2, 8]\nseconds = 0.01\nrounds = 2\n";
    fs::write(&file, text).unwrap();
    let dir = fake.path().join("out");
    let places = [file.to_str().unwrap(), "-o", dir.to_str().unwrap()];
    let output = fake
        .bench(&[&["scenes"], &places[..]].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("4 threads at most"),
        "{}",
        stderr(&output)
    );
    let result = result(&dir.join("few.json"));
    let rounds = |e: &Value| e["rounds"].as_array().unwrap().len();
    let measured: Vec<usize> = result["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(rounds)
        .collect();
    assert_eq!(measured, [2, 2, 2, 0]);
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("Failed: a 8 threads in round 1: "));
}

#[test]
fn a_paper_is_refused_before_it_begins() {
    let fake = Fake::new("result 1");
    for (args, code) in [
        (&["-o", "/proc/no/such"][..], 125),
        (&["--only", "fig99"], 125),
        (&["--locks", "c"], 125),
        (&["--rounds", "0"], 2),
        (&["--seconds", "0"], 2),
    ] {
        let output = fake
            .bench(&[&["paper", "--quick"], args].concat())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    assert!(!fake.has_run());
}

#[test]
fn the_plan_is_shown_and_not_run() {
    let fake = Fake::new("result 1");
    let args = words("paper --quick --locks posix,a --only shm,hashtable-hogs --plan");
    let output = fake.bench(&args).output().unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("As figure 3b") && text.contains("in all about"),
        "{text}"
    );
    assert!(!fake.has_run());
}

/// Of what is missing, what was not asked for is not spoken of.
#[test]
fn only_what_is_asked_for_is_left_out() {
    let plan = |only: &[&str]| {
        let mut command = flexguard();
        command.args(["bench", "paper", "--plan"]).args(only);
        command.env("PATH", "/nonexistent").output().unwrap()
    };
    let all = stdout(&plan(&[]));
    for missing in ["rocksdb", "kyoto", "leveldb-overwrite"] {
        let line = format!("left out: {missing}: ");
        assert!(
            all.lines().any(|l| l.starts_with(&line)),
            "{missing}: {all}"
        );
    }
    let shm = stdout(&plan(&["--only", "shm"]));
    assert!(!shm.contains("left out: ") && shm.contains("shm"), "{shm}");
    let kyoto = plan(&["--only", "kyoto"]);
    assert_eq!(kyoto.status.code(), Some(125));
    let why = "'kyoto' cannot be measured here";
    assert!(stderr(&kyoto).contains(why), "{}", stderr(&kyoto));
}

/// Whatever this machine lacks is left out, and said. A quarter of the 15 minutes is for what the estimate leaves out:
/// locks that collapse, and the drawing.
#[test]
fn the_real_paper_has_a_plan_on_every_machine() {
    for (version, most) in [(&["--quick"][..], 12.0), (&[], f64::INFINITY)] {
        let output = run([&["bench", "paper", "--plan"], version].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        let (_, total) = text.split_once("in all about ").expect("a sum");
        let (n, unit) = total.lines().next().unwrap().split_once(' ').unwrap();
        let minutes = n.parse::<f64>().unwrap() * if unit == "h" { 60.0 } else { 1.0 };
        assert!(unit != "s" && minutes <= most, "{text}");
        for id in APPLICATIONS {
            let row = |l: &str| l.split_whitespace().next() == Some(id);
            assert!(text.lines().any(row), "{id}: {text}");
        }
        for program in words("RocksDB Kyoto") {
            assert!(text.contains(program), "{program}: {text}");
        }
        // A run of LevelDB takes a second at least, and the short version has none.
        for program in words("leveldb-readrandom leveldb-fillrandom") {
            assert_eq!(
                text.contains(program),
                version.is_empty(),
                "{program}: {text}"
            );
        }
    }
}

const APPLICATIONS: [&str; 5] = ["hotlock", "index", "dedup", "raytrace", "streamcluster"];

/// What was measured of it, alone and beside hogs, is what the locks' workers said. Returns the record of it alone.
fn application_is_kept(dir: &Path, name: &str) -> Value {
    let alone = result(&dir.join(format!("{name}.json")));
    assert_eq!(
        (&alone["workload"], &alone["complete"]),
        (&name.into(), &true.into())
    );
    assert_eq!(
        alone["results"].as_array().unwrap().len(),
        6,
        "{name}: 2, 4 and 16 threads"
    );
    let beside = result(&dir.join(format!("{name}-hogs.json")));
    assert_eq!(
        beside["results"].as_array().unwrap().len(),
        6,
        "{name}: the same beside 4 hogs"
    );
    for entry in alone["results"]
        .as_array()
        .unwrap()
        .iter()
        .chain(beside["results"].as_array().unwrap())
    {
        let expected = if entry["subject"] == "a" {
            300.0
        } else {
            100.0
        };
        assert_eq!(
            entry["measures"]["throughput_ops_per_ms"]["median"],
            expected
        );
    }
    alone
}

/// The applications run at every point of the short version, and their verdicts stand beside the figures. Programs that
/// are not installed are named, and the rest goes on.
#[test]
fn the_papers_applications_are_run_kept_and_shown() {
    let fake = Fake::new("case $lock in a) result 300;; *) result 100;; esac");
    let dir = fake.path().join("out");
    let empty = fake.path().join("empty");
    fs::create_dir(&empty).unwrap();
    // The script needs wc; programs of the paper are looked for elsewhere, and are not there.
    let wc = Path::new("/usr/bin/wc");
    std::os::unix::fs::symlink(wc, empty.join("wc")).unwrap();
    let only = APPLICATIONS.map(|a| format!("{a},{a}-hogs")).join(",");
    let args = [
        "paper",
        "--quick",
        "--seconds",
        "0.01",
        "--rounds",
        "1",
        "--locks",
        "posix,a",
        "--only",
        &only,
        "-o",
        dir.to_str().unwrap(),
    ];
    let output = fake.bench(&args).env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(!text.contains("left out: "), "{text}");
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    for name in APPLICATIONS {
        let alone = application_is_kept(&dir, name);
        assert!(page.contains(alone["title"].as_str().unwrap()), "{name}");
        for figure in [
            format!("{name}-throughput"),
            format!("{name}-hogs-throughput"),
        ] {
            assert!(
                dir.join(format!("plots/{figure}.svg")).is_file(),
                "{figure}"
            );
        }
    }
}

/// Of the paper's own locks: each claim about them at each point has its verdict in the report.
#[test]
fn the_papers_claims_are_judged_and_shown() {
    let fake = Fake::new("case $lock in mcs) result 1;; *) result 100;; esac");
    let index = fake.path().join("share/flexguard/LOCKS");
    fs::write(index, "mcs\tspin\tMCS\nflexguard\tadaptive\tours\n").unwrap();
    let list = "#!/bin/sh\nif [ $1 = --list ]; then printf 'posix\\tlibc\\nmcs\\town\\nflexguard\\town\\n'; exit; fi\n";
    let worker = fake.path().join("libexec/flexguard/fg-bench");
    let script = fs::read_to_string(&worker).unwrap();
    fs::write(&worker, script.replacen("#!/bin/sh\n", list, 1)).unwrap();
    let dir = fake.path().join("out");
    let args = format!(
        "paper --quick --seconds 0.01 --rounds 6 --only raytrace -o {}",
        dir.display()
    );
    let args = words(&args);
    let output = fake.bench(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let judged = json(&fs::read_to_string(dir.join("claims.json")).unwrap());
    let verdict = |lock: &str, claim: &str, at: &str| {
        let all = judged.as_array().unwrap().iter();
        let mut found = all.filter(|j| {
            j["lock"] == lock && j["claim"].as_str().unwrap().ends_with(claim) && j["at"] == at
        });
        let one = found
            .next()
            .unwrap_or_else(|| panic!("{lock}, {claim}: {judged}"));
        assert!(found.next().is_none(), "{lock}, {claim}");
        one["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        verdict("flexguard", "outperforms POSIX", "2 threads"),
        "holds"
    );
    assert_eq!(
        verdict("mcs", "a tenth of POSIX or less", "16 threads"),
        "holds"
    );
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("What the papers claim") && page.contains("1.04 times on average"));
}

/// Equal results are told apart no better by more rounds.
#[test]
fn rounds_end_when_the_ratio_is_known() {
    let fake = Fake::new("result 100");
    let args = words("shm --locks posix,a --threads 2 --rounds 20 --json");
    for (more, expected) in [(&[][..], 20), (&["--tell", "1"], 6)] {
        let output = fake.bench(&[&args[..], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result = json(&stdout(&output));
        assert_eq!(result["complete"], true);
        for entry in result["results"].as_array().unwrap() {
            assert_eq!(entry["rounds"].as_array().unwrap().len(), expected);
        }
    }
}

#[test]
fn two_papers_at_once_in_one_place_are_one_too_many() {
    let fake = Fake::new("if [ $n = 1 ]; then echo begun >$dir/fifo; sleep 1000; fi; result 1");
    let dir = fake.path().join("out");
    let args = [&words(SMALL)[..], &[dir.to_str().unwrap()]].concat();
    let (child, _) = fake.begin(&mut fake.bench(&args));
    let output = paper(&fake, &dir, &[]);
    kill(child.id(), libc::SIGTERM);
    child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("another `flexguard bench`"),
        "{}",
        stderr(&output)
    );
}

/// Results of posix, a and b at 1 and 2 threads; `b` is how fast b is.
fn measured(fake: &Fake, b: &str, name: &str) -> String {
    fake.change(&format!(
        "case $lock in b) result {b}$((n % 10));; *) result 10$((n % 10));; esac"
    ));
    let file = fake.path().join(name).to_str().unwrap().to_owned();
    let args = [
        "--locks",
        "posix,a,b",
        "--threads",
        "1,2",
        "--noise",
        "-o",
        &file,
    ];
    let output = fake.shm(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    file
}

#[test]
fn compare_finds_what_got_worse() {
    let fake = Fake::new("");
    let (before, after) = (
        measured(&fake, "30", "x.json"),
        measured(&fake, "20", "y.json"),
    );
    let compare = |args: &[&str]| fake.bench(&[&["compare"], args].concat()).output().unwrap();
    let output = compare(&[&before, &after, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let comparison = json(&stdout(&output));
    assert_eq!(
        (&comparison["same_hardware"], &comparison["unmatched"]),
        (&true.into(), &0.into())
    );
    for row in comparison["results"].as_array().unwrap() {
        let expected = if row["subject"] == "b" {
            "worse"
        } else {
            "unclear"
        };
        assert_eq!(row["verdict"], expected, "{row}");
    }
    assert_eq!(
        compare(&[&before, &after, "--check"]).status.code(),
        Some(1)
    );
    assert_eq!(
        compare(&[&after, &before, "--check"]).status.code(),
        Some(0)
    );
    assert!(stdout(&compare(&[&before, &after])).contains("worse"));
    let output = compare(&[&before, &after, "--measure", "fairness_factor", "--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(
        compare(&[&before, &after, "--measure", "beauty"])
            .status
            .code(),
        Some(125)
    );
    assert_eq!(
        compare(&[&before, "/no/such.json"]).status.code(),
        Some(125)
    );
}

#[test]
fn compare_does_not_judge_between_machines() {
    let fake = Fake::new("");
    let (before, after) = (
        measured(&fake, "30", "x.json"),
        measured(&fake, "20", "y.json"),
    );
    let mut other = result(Path::new(&after));
    other["machine"]["cpu"] = "Another CPU".into();
    fs::write(&after, other.to_string()).unwrap();
    let output = fake
        .bench(&["compare", &before, &after, "--check"])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("DIFFERENT MACHINES")
            && text.contains("Another CPU")
            && !text.contains("worse"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
    let args = ["compare", &before, &after, "--check", "--across-machines"];
    assert_eq!(fake.bench(&args).output().unwrap().status.code(), Some(1));
}

#[test]
fn a_report_is_made_of_results() {
    let fake = Fake::new("");
    let file = measured(&fake, "30", "x.json");
    let (page, plots) = (fake.path().join("r.html"), fake.path().join("plots"));
    let args = [
        "report",
        &file,
        "-o",
        page.to_str().unwrap(),
        "--plots",
        plots.to_str().unwrap(),
    ];
    let output = fake.bench(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(fs::read_to_string(&page).unwrap().contains("Verdicts"));
    assert!(plots.join("x-throughput.png").is_file());
    let damaged = fake.path().join("damaged.json");
    fs::write(&damaged, "{\"schema\": \"something else\"}").unwrap();
    for wrong in [damaged.to_str().unwrap(), "/no/such.json"] {
        let output = fake
            .bench(&["report", wrong, "-o", page.to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
    }
    let output = fake
        .bench(&["report", &file, "-o", "/no/such/r.html"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn overhead_compares_without_and_with_the_monitor() {
    if !bpf("overhead_compares_without_and_with_the_monitor") {
        return;
    }
    let args = [
        "bench", "overhead", "--loops", "2", "--fds", "2", "--rounds", "2", "--json",
    ];
    let output = run(args);
    if output.status.code() == Some(127) {
        return skipped("overhead", &stderr(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result = json(&stdout(&output));
    let measures = |i: usize| &result["results"][i]["measures"];
    let names: Vec<&str> = result["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s.as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "without",
            "bystander",
            "registered",
            "unused, timed",
            "bystander, timed",
            "registered, timed"
        ]
    );
    for i in 0..3 {
        assert!(measures(i)["hackbench_seconds"]["median"].is_number());
        assert!(measures(i).get("ns_per_switch").is_none());
    }
    for i in 3..6 {
        assert!(measures(i)["ns_per_switch"]["median"].as_f64().unwrap() > 0.0);
        assert!(measures(i).get("hackbench_seconds").is_none());
    }
}
