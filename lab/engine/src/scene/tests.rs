// SPDX-License-Identifier: MIT
//! Tests of scene files: what is refused and why, and what a scene becomes.

use super::*;
use crate::catalogue::testing::catalogue;
use crate::stats::Better;

const HEAD: &str = "version = 1\ntitle = \"t\"\n";

fn refusal(scene: &str) -> String {
    let text = format!("{HEAD}{scene}");
    let wrong = parse(&text, &catalogue(), &Sizes::default())
        .err()
        .expect("it is refused");
    let failure = wrong.in_file(Path::new("s.toml"), &text);
    failure.report().to_string()
}

#[test]
fn a_scene_becomes_points_and_subjects() {
    let text = format!(
        "{HEAD}[[scene]]\nname = \"a\"\nworkload = \"shm\"\nlocks = [\"posix\"]\nthreads = [2, \"1x\", 8]\n\
         options = {{ cycles-between = [100, 300] }}\nrounds = 3\n\
         [[scene.subject]]\nname = \"tuned\"\nlock = \"flexguard\"\nenvironment = {{ FLEXGUARD_SOCKET = \"\" }}\n"
    );
    let scenes = parse(&text, &catalogue(), &Sizes::default()).unwrap();
    let scene = &scenes.experiments[0];
    assert_eq!((scene.id.as_str(), scene.plan.rounds), ("a", 3));
    assert_eq!(scene.workload.subjects(), ["posix", "tuned"]);
    assert!(
        scene
            .workload
            .points()
            .iter()
            .any(|p| p.to_string().contains("300 cycles between"))
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_is_allowed() {
    let scene = "[[scene]]\nname = \"a\"\nworkload = \"shm\"\nlocks = [\"posix\"]\n";
    for (more, line, expected) in [
        ("threads = 0\n", 7, "from 1 to 4096"),
        ("threads = [2, \"many\"]\n", 7, "factor such as 2x"),
        ("options = { cycles-between = -1 }\n", 7, "from 0 to"),
        ("options = { depth = 1 }\n", 7, "there are: cycles-between"),
        ("rounds = 0\n", 7, "from 1 to 1000"),
        ("colour = 1\n", 7, "unknown field `colour`"),
        ("program = [\"x\"]\n", 3, "exactly one of"),
        ("primary = \"beauty\"\n", 3, "throughput_ops_per_ms"),
        (scene, 8, "a second scene 'a'"),
        ("threads = \n", 7, ""),
    ] {
        let text = refusal(&format!("{scene}{more}"));
        assert!(
            text.contains(&format!("s.toml:{line}: ")) && text.contains(expected),
            "{more}: {text}"
        );
    }
    assert!(refusal("[[scene]]\nname = \"a b\"\nworkload = \"shm\"\n").contains("s.toml:4: "));
    assert!(
        refusal("[[scene]]\nname = \"a\"\nworkload = \"dance\"\nlocks=[\"x\"]")
            .contains("shm, hashtable")
    );
    assert!(refusal("[[scene]]\nname = \"a\"\nworkload = \"shm\"\n").contains("names no lock"));
}

#[test]
fn scenes_of_programs_that_are_not_installed_are_known() {
    let scene = |name: &str, program: &str| {
        format!("[[scene]]\nname = \"{name}\"\nprogram = [\"{program}\"]\nlocks = [\"posix\"]\n")
    };
    let text = format!(
        "{HEAD}{}{}",
        scene("a", "true"),
        scene("b", "no-such-program")
    );
    let scenes = parse(&text, &catalogue(), &Sizes::default()).unwrap();
    assert_eq!(scenes.experiments.len(), 2);
    assert_eq!(
        scenes.missing,
        [("b".into(), "no-such-program is not installed".into())]
    );
}

#[test]
fn a_program_takes_lists_and_names_of_its_own() {
    let text = format!(
        "{HEAD}[[scene]]\nname = \"a\"\nprogram = [\"true\", \"{{threads}}\", \"{{mutexes}}\"]\n\
         locks = [\"posix\"]\nthreads = [2, 8]\noptions = {{ mutexes = [1, 4] }}\n"
    );
    let scenes = parse(&text, &catalogue(), &Sizes::default()).unwrap();
    let points = scenes.experiments[0].workload.points();
    assert_eq!(points.len(), 4);
    assert_eq!(points[3].to_string(), "8 threads, 4 mutexes");
    let better = |more: &str| {
        let scenes = parse(&format!("{text}{more}"), &catalogue(), &Sizes::default()).unwrap();
        let score = scenes.experiments[0].workload.measures().remove(0);
        (score.name, score.better)
    };
    let score = "score = 'took ([0-9]+)'\n";
    assert_eq!(better(score), ("score".into(), Some(Better::Higher)));
    let cost = format!("{score}lower = true\n");
    assert_eq!(better(&cost), ("score".into(), Some(Better::Lower)));
    let wrong = text.replace("[1, 4]", "\"many\"");
    let wrong = parse(&wrong, &catalogue(), &Sizes::default())
        .err()
        .unwrap();
    assert_eq!(wrong.allowed, "a number, or a list of numbers");
}

/// A reason without an experiment is a guess, and one that no claim names is never shown.
#[test]
fn reasons_of_installed_claims_have_an_experiment_and_are_named() {
    for name in ["papers", "published-locks"] {
        let file = installed(name);
        let claims = file.claims.iter().map(|c| c.get_ref());
        let named: Vec<&str> = claims.flat_map(|c| c.names_of_reasons()).collect();
        assert!(!file.reasons.is_empty(), "{name}");
        for reason in &file.reasons {
            assert!(named.contains(&reason.name()), "{name}: {}", reason.name());
            let numbers = reason.experiment().matches(|c: char| c.is_ascii_digit());
            assert!(numbers.count() > 1, "{name}: {}", reason.name());
        }
    }
}

/// What became of each item of the papers: files, pages and scenes that there are.
#[test]
fn the_coverage_of_the_papers_names_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = root.join("docs/results/data/coverage.csv");
    let text = fs::read_to_string(table).unwrap();
    let mut rows = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let head = ["item", "implemented", "deviation", "measured", "verdict"];
    assert_eq!(rows.next().unwrap(), head);
    let there_is = |name: &str| root.join(name).exists();
    let mut items = 0;
    for row in rows {
        let [item, implemented, deviation, measured, verdict] = row[..] else {
            panic!("not five cells: {row:?}");
        };
        items += 1;
        assert!(
            implemented == "-" || there_is(implemented),
            "{item}: {implemented}"
        );
        assert!(!deviation.is_empty() && !verdict.is_empty(), "{item}");
        let found = match measured.split_once(".toml:") {
            Some((file, scene)) => installed(file)
                .scenes
                .iter()
                .any(|s| s.get_ref().name.get_ref() == scene),
            None if measured.ends_with(".md") => there_is(&format!("docs/results/{measured}")),
            None => measured == "-" || there_is(measured),
        };
        assert!(found, "{item}: {measured}");
    }
    assert_eq!(items, 58);
}

fn installed(name: &str) -> File {
    let scenes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenes");
    let text = fs::read_to_string(scenes.join(format!("{name}.toml"))).unwrap();
    toml::from_str(&text).unwrap()
}

#[test]
fn another_version_is_refused() {
    let wrong = parse(
        "version = 2\ntitle = \"t\"\n",
        &catalogue(),
        &Sizes::default(),
    )
    .err()
    .unwrap();
    assert!(wrong.what.contains("version 2") && wrong.allowed.contains("version 1"));
}

/// Without the points that it leaves out there is nothing to claim about them.
#[test]
fn the_short_version_has_some_of_the_locks_and_values_and_their_claims() {
    let scene = |name: &str, more: &str| {
        format!(
            "[[scene]]\nname = \"{name}\"\nworkload = \"shm\"\nlocks = [\"posix\", \"mcs\", \"futex\"]\n\
             threads = [2, 8, 16]\n{more}"
        )
    };
    let claim = |lock: &str, scene: &str| {
        format!(
            "[[claim]]\nlocks = [\"futex\", \"{lock}\"]\nsays = \"wins\"\nscene = \"{scene}\"\n\
             measure = \"throughput_ops_per_ms\"\nat = {{ threads = [8, 16] }}\nleast = 1\nof = {{ lock = \"posix\" }}\n"
        )
    };
    let text = format!(
        "{HEAD}[quick]\nlocks = [\"posix\", \"mcs\"]\nthreads = [2, 16]\nrounds = 3\nseconds = 0.1\n{}{}{}{}",
        scene(
            "a",
            "rounds = 5\nquick = { seconds = 0.5 }\npreparation = 3\n"
        ),
        scene("b", "full = true\n"),
        claim("mcs", "a"),
        claim("mcs", "b"),
    );
    let of = |sizes: &Sizes| {
        let scenes = parse(&text, &catalogue(), sizes).unwrap();
        let counts = (scenes.experiments.len(), scenes.claims.len());
        let first = scenes.experiments.into_iter().next().unwrap();
        let points = first.workload.points();
        let run = first.workload.run_seconds(&points[0]).unwrap();
        (
            counts,
            first.workload.subjects(),
            points.len(),
            first.plan.rounds,
            (run * 100.0).round() / 100.0,
        )
    };
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let all = names(&["posix", "mcs", "futex"]);
    assert_eq!(of(&Sizes::default()), ((2, 4), all, 3, 5, 4.15));
    let quick = Sizes {
        quick: true,
        ..Sizes::default()
    };
    assert_eq!(of(&quick), ((1, 1), names(&["posix", "mcs"]), 2, 3, 3.65));
    let other = Sizes {
        quick: true,
        rounds: Some(1),
        seconds: Some(0.1),
        locks: names(&["posix", "futex"]),
        ..Sizes::default()
    };
    assert_eq!(of(&other), ((1, 1), names(&["posix", "futex"]), 2, 1, 3.25));
}

#[test]
fn a_scene_in_guests_has_their_points_and_refuses_what_they_have_not() {
    let scene = "[[scene]]\nname = \"a\"\nguests = \"hackbench\"\nlocks = [\"ticket\"]\n";
    let text =
        format!("{HEAD}{scene}options = {{ guests = [1, 2], vcpus = 4, burners = [0, 1] }}\n");
    let scenes = parse(&text, &catalogue(), &Sizes::default()).unwrap();
    let workload = &scenes.experiments[0].workload;
    let points: Vec<String> = workload.points().iter().map(ToString::to_string).collect();
    assert_eq!(points.len(), 4);
    assert_eq!(points[3], "2 guests, 4 vcpus, 1 burner");
    for (more, expected) in [
        ("options = { guests = 0 }", "from 1 to 8"),
        ("options = { vcpus = 2.5 }", "from 1 to 16"),
        (
            "options = { threads = 2 }",
            "guests, vcpus, burners, section",
        ),
        ("options = { section = 300 }", "hackbench has no section"),
        ("workload = \"shm\"", "exactly one of"),
    ] {
        let text = refusal(&format!("{scene}{more}\n"));
        assert!(text.contains(expected), "{more}: {text}");
    }
    let variant = |environment: &str| {
        format!(
            "{scene}[[scene.subject]]\nname = \"b\"\nlock = \"ticket\"\nenvironment = {{ {environment} = \"\" }}\n"
        )
    };
    let text = refusal(&variant("FG_SPINS"));
    assert!(
        text.contains("'b': a guest takes locks as they are"),
        "{text}"
    );
    let text = format!("{HEAD}{}", variant("FLEXGUARD_SOCKET"));
    let scenes = parse(&text, &catalogue(), &Sizes::default()).unwrap();
    let workload = &scenes.experiments[0].workload;
    assert_eq!(workload.subjects(), ["ticket", "b"]);
    let launch = workload.launch(&workload.points()[0], "b");
    assert_eq!(launch.environment["FLEXGUARD_SOCKET"], "");
    let other = scene.replace("hackbench", "dance");
    assert!(refusal(&other).contains("hackbench, hackbench-crowd, files"));
}

#[test]
fn fuzz_scenes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenes");
    let files = std::fs::read_dir(directory).unwrap().flatten();
    let texts: Vec<_> = files.filter_map(|f| std::fs::read(f.path()).ok()).collect();
    let corpus: Vec<&[u8]> = texts
        .iter()
        .map(Vec::as_slice)
        .filter(|text| text.len() < 8192)
        .collect();
    assert!(corpus.len() > 2);
    let catalogue = catalogue();
    flexguard_fuzz::fuzz("scenes", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        if let Err(wrong) = parse(&text, &catalogue, &Sizes::default()) {
            let _ = wrong
                .in_file(Path::new("s.toml"), &text)
                .report()
                .to_string();
        }
    });
}
