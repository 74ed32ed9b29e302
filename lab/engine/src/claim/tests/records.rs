// SPDX-License-Identifier: MIT
//! The claims of the papers, and the recorded verdicts of docs/results/data, held against rules: what is said has the
//! paper's words, place, machine and load; a claim says it the same way, and the paper's own numbers keep it; a verdict
//! is of such a machine and load, follows from its numbers, and has a reason from data where it is against the paper.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::statement::{Load, Statement, load};
use super::*;

const MACHINES: [&str; 7] = [
    "none named",
    "Intel, 104 contexts",
    "AMD, 512 contexts",
    "Intel, 104 contexts; AMD, 512 contexts",
    "Intel, 40 contexts",
    "Intel, 8 contexts, KVM",
    "Intel, 24 cores, Xen",
];
const FIELDS: [&str; 16] = [
    "name",
    "paper",
    "section",
    "quote",
    "machine",
    "cpu",
    "load",
    "of_most",
    "of_all",
    "printed",
    "way",
    "compares",
    "against",
    "number",
    "unjudged",
    "simulated",
];
/// The machine of every record, as the pages say: two contexts of an AMD EPYC.
const CPU: &str = "AMD EPYC";
const CONTEXTS: usize = 2;

pub(super) fn statements() -> Vec<toml::Table> {
    tables(include_str!("../statements.toml"), "statement")
}

fn tables(text: &str, name: &str) -> Vec<toml::Table> {
    let file: toml::Table = toml::from_str(text).unwrap();
    let all = file.get(name).and_then(Value::as_array);
    let table = |t: &Value| t.as_table().unwrap().clone();
    all.into_iter().flatten().map(table).collect()
}

/// What is wrong with what a paper is said to say.
fn wrong_statement(table: &toml::Table) -> Option<String> {
    let text = |field: &str| table.get(field).and_then(Value::as_str).unwrap_or_default();
    if let Some(unknown) = table.keys().find(|k| !FIELDS.contains(&k.as_str())) {
        return Some(format!("no field {unknown}"));
    }
    if text("quote").split_whitespace().count() < 4 {
        return Some("no quotation".into());
    }
    let places = ["section", "Fig. ", "Table", "footnote", "abstract"];
    if !places.iter().any(|p| text("section").starts_with(p)) {
        return Some("no section".into());
    }
    if !MACHINES.contains(&text("machine")) {
        return Some("no machine".into());
    }
    // What is of one of the two machines of a paper is said of its CPUs alone.
    let two = text("paper").is_empty()
        && text("machine") != "none named"
        && !text("machine").contains(';');
    let maker = text("machine").split(',').next().unwrap_or_default();
    if two != (text("cpu") == maker) {
        return Some("the CPUs are not those of the machine".into());
    }
    let parsed: Result<Statement, _> = table.clone().try_into();
    parsed.err().map(|e| e.message().to_owned())
}

pub(super) struct Installed {
    pub(super) claims: Vec<Claim>,
    pub(super) scenes: Vec<toml::Table>,
    reasons: Vec<Reason>,
}

pub(super) fn installed(text: &str) -> Installed {
    let reasons: Vec<Reason> = tables(text, "reason")
        .into_iter()
        .map(|t| t.try_into().unwrap())
        .collect();
    let explained = |table: toml::Table| {
        let mut claim: Claim = table.try_into().unwrap();
        claim.explain(reasons.iter()).unwrap();
        claim.each()
    };
    let claims = tables(text, "claim")
        .into_iter()
        .flat_map(explained)
        .collect();
    Installed {
        claims,
        scenes: tables(text, "scene"),
        reasons,
    }
}

impl Installed {
    /// Threads a context, where the claim or its scene has one number of them.
    fn load(&self, claim: &Claim) -> Option<f64> {
        let scene = self
            .scenes
            .iter()
            .find(|s| s["name"].as_str() == Some(&claim.scene))?;
        let options = scene.get("options").and_then(Value::as_table);
        let mut point = Point::default();
        for name in ["threads", "hogs", "guests", "vcpus", "burners"] {
            let given = options.and_then(|o| o.get(name)).or(scene.get(name));
            let value = match claim.at.get(name).or(given) {
                Some(Value::Array(one)) if one.len() == 1 => one.first(),
                other => other,
            };
            let number = match value {
                Some(Value::Integer(n)) => Some(*n as f64),
                Some(Value::String(factor)) if ["threads", "hogs"].contains(&name) => {
                    let factor: Option<f64> = factor.trim_end_matches('x').parse().ok();
                    factor.map(|x| x * CONTEXTS as f64)
                }
                _ => None,
            };
            if let Some(number) = number {
                point = point.with(name, number);
            }
        }
        load(&point, CONTEXTS)
    }

    /// What is wrong with a row of a record.
    fn wrong(&self, row: &[&str]) -> Option<String> {
        let [
            lock,
            place,
            says,
            at,
            published,
            measured,
            verdict,
            reason,
            quote,
            machine,
            subscription,
        ] = row
        else {
            return Some("not eleven cells".into());
        };
        let of_row =
            |c: &&Claim| c.locks.iter().any(|l| l == lock) && c.says == *says && c.point == *at;
        let placed = |c: &&Claim| match Statement::find(&c.statement) {
            Some(statement) => statement.place() == *place,
            None => *place == "ours",
        };
        let Some(claim) = self.claims.iter().find(|c| of_row(c) && placed(c)) else {
            return Some("it is of no claim".into());
        };
        let statement = Statement::find(&claim.statement);
        let load = self.load(claim);
        let said = statement.map_or(["", "", ""], |s| [&s.quote, &s.machine, s.load.text()]);
        if said != [*quote, *machine, *subscription] {
            return Some("it has other words, machine or subscription than the paper".into());
        }
        if statement.is_some_and(|s| s.printed(lock, load) != *published) {
            return Some("the paper prints another number".into());
        }
        let known = !["not measured", "shown"].contains(verdict);
        let mut recorded = crate::document::testing::document().machine;
        recorded.cpu = Some(CPU.into());
        if let Some(why) = statement.and_then(|s| s.elsewhere(&recorded, load)) {
            return known.then(|| format!("judged, though {why}"));
        }
        let because = claim.reasons.iter().find_map(|b| b.for_lock(lock));
        if ["does not hold", "not seen"].contains(verdict) && statement.is_some() {
            let expected = because.map_or("no experiment yet", |b| &b.says);
            if (*reason, *verdict == "does not hold") != (expected, because.is_some()) {
                return Some(format!("the reason is {expected}"));
            }
        }
        if claim.refused || !known {
            return None;
        }
        let expected = recomputed(claim, measured).text().replace('*', "");
        let same =
            expected == *verdict || (expected, *verdict) == ("does not hold".into(), "not seen");
        (!same).then(|| "its numbers give another verdict".into())
    }
}

/// A number as the tables have it: the program's own units, of which shares and seconds have none.
fn estimate(text: &str) -> Estimate {
    let (median, ends) = text.trim_end_matches(')').split_once(" (").unwrap();
    let (low, high) = ends.split_once(" to ").unwrap();
    let [median, low, high] = [median, low, high].map(|n| n.parse().unwrap());
    let one = of([1.0; 7]);
    Estimate {
        median,
        low,
        high,
        ..one
    }
}

fn recomputed(claim: &Claim, measured: &str) -> Verdict {
    if measured.contains("a result in ") {
        return match claim.ends {
            true => Verdict::Fails,
            false => Verdict::TooFewRounds,
        };
    }
    let one = of([1.0; 7]);
    let (a, b) = match (
        measured.split_once(", ratio "),
        measured.split_once(" against "),
    ) {
        (Some((_, ratio)), _) => (estimate(ratio), one),
        (None, Some((a, b))) => (estimate(a), estimate(b)),
        (None, None) => (estimate(measured), one),
    };
    let factor = claim.least.or(claim.most).unwrap();
    Verdict::of(&a, &b, claim.least.is_some(), factor)
}

pub(super) const SCENES: [&str; 3] = [
    include_str!("../../../../scenes/papers.toml"),
    include_str!("../../../../scenes/published-locks.toml"),
    include_str!("../../../../scenes/guests.toml"),
];

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/data")
}

/// The paper's words, where they stand, of which machine and of how many threads.
#[test]
fn what_the_papers_say_is_quoted_and_placed() {
    let all = statements();
    assert!(all.len() > 100);
    let mut names = BTreeSet::new();
    for table in &all {
        assert_eq!(wrong_statement(table), None, "{table:?}");
        assert!(names.insert(table["name"].as_str().unwrap()), "{table:?}");
    }
}

/// Each is judged by a claim, or the reason why not stands beside it.
#[test]
fn what_the_papers_say_is_judged_or_the_reason_is_said() {
    let claims: Vec<Claim> = SCENES
        .iter()
        .flat_map(|text| installed(text).claims)
        .collect();
    for table in statements() {
        let name = table["name"].as_str().unwrap();
        let judged = claims.iter().any(|c| c.statement == name);
        assert_eq!(judged, !table.contains_key("unjudged"), "{name}");
    }
}

/// `scripts/papers-table` tells the files of two records apart by the claims' texts.
#[test]
fn no_claim_stands_in_two_files() {
    let texts = |i: usize| -> BTreeSet<String> {
        installed(SCENES[i])
            .claims
            .into_iter()
            .map(|c| c.says)
            .collect()
    };
    let both: Vec<String> = texts(0).intersection(&texts(1)).cloned().collect();
    assert!(both.is_empty(), "{both:?}");
}

/// Each claim says what its paper says, the same way, and the paper's numbers keep it.
#[test]
fn claims_say_what_the_papers_say() {
    for claim in SCENES.iter().flat_map(|text| installed(text).claims) {
        assert_eq!(claim.agrees(), Ok(()), "{claim:?}");
    }
}

/// The rows of every record: the words and numbers of the paper, on such a machine and at such a load, and the verdict
/// that follows from the numbers.
#[test]
fn the_recorded_verdicts_are_those_of_the_papers_words_and_their_numbers() {
    let mut rows = 0;
    for (scenes, record) in [
        (SCENES[0], "papers-claims"),
        (SCENES[0], "quick-papers-claims"),
        (SCENES[1], "published-locks-claims"),
        (SCENES[2], "guests-claims"),
    ] {
        let installed = installed(scenes);
        let text = fs::read_to_string(data().join(format!("{record}.csv"))).unwrap();
        for line in text.lines().skip(1) {
            let cells = line
                .strip_prefix('"')
                .and_then(|l| l.strip_suffix('"'))
                .unwrap();
            let cells: Vec<String> = cells
                .split("\",\"")
                .map(|c| c.replace("\"\"", "\""))
                .collect();
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            assert_eq!(installed.wrong(&cells), None, "{record}: {line}");
            rows += 1;
        }
    }
    assert!(rows > 900, "{rows}");
}

/// A reason names a file of docs/results/data that has its numbers.
#[test]
fn reasons_have_their_numbers_in_the_data() {
    for reason in SCENES.iter().flat_map(|text| installed(text).reasons) {
        let text = fs::read_to_string(data().join(reason.data())).unwrap();
        let parts = |text: &str| -> BTreeSet<String> {
            let number = |c: char| c.is_ascii_digit() || c == '.';
            let all = text
                .split(|c| !number(c))
                .map(|n| n.trim_matches('.').to_owned());
            all.filter(|n| n.len() > 1).collect()
        };
        let (known, named) = (parts(&text), parts(reason.experiment()));
        assert!(named.len() > 1, "{}", reason.name());
        let missing: Vec<_> = named.difference(&known).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", reason.name());
    }
}

/// Bad rows are refused: these are what the rules are for.
#[test]
fn what_breaks_a_rule_is_refused() {
    let good = statements()
        .into_iter()
        .find(|t| t["name"].as_str() == Some("shuffle-46"))
        .unwrap();
    for (field, value, expected) in [
        ("quote", "", "no quotation"),
        ("section", "somewhere", "no section"),
        ("machine", "a large one", "no machine"),
        (
            "machine",
            "AMD, 512 contexts",
            "the CPUs are not those of the machine",
        ),
        ("cpu", "", "the CPUs are not those of the machine"),
        ("load", "much", "unknown variant"),
        ("loud", "x", "no field loud"),
    ] {
        let mut bad = good.clone();
        bad.insert(field.into(), Value::String(value.into()));
        let wrong = wrong_statement(&bad).unwrap();
        assert!(wrong.contains(expected), "{field}: {wrong}");
    }
    for field in ["quote", "section", "machine", "load"] {
        let mut bad = good.clone();
        bad.remove(field);
        assert!(wrong_statement(&bad).is_some(), "{field}");
    }
}

/// Statement, measure, bound, the other lock; what is wrong.
const WRONG_CLAIMS: [[&str; 5]; 10] = [
    // The paper prints 1.46.
    [
        "shuffle-46",
        "cs_mean_ns",
        "least = 1.5",
        "futex",
        "own 1.46 does not keep it",
    ],
    [
        "waiters-dominate",
        "waiter_share",
        "least = 0.9",
        "",
        "own 0.885 does not keep it",
    ],
    [
        "readrandom",
        "score",
        "most = 0.7",
        "posix",
        "own 1.25 does not keep it",
    ],
    [
        "fair",
        "fairness_normalised",
        "most = 0.55",
        "",
        "own 0.58 does not keep it",
    ],
    // Directions.
    [
        "shuffle-46",
        "cs_mean_ns",
        "most = 1.46",
        "futex",
        "it turns what the paper says",
    ],
    [
        "readrandom",
        "score",
        "least = 1",
        "posix",
        "it turns what the paper says",
    ],
    [
        "slices-few",
        "throughput_ops_per_ms",
        "least = 1",
        "ticket",
        "it turns what the paper says",
    ],
    [
        "hackbench-one",
        "seconds",
        "most = 0.9",
        "ticket",
        "it turns what the paper says",
    ],
    [
        "shuffle-46",
        "parks_per_s",
        "least = 1",
        "futex",
        "it judges parks, the paper speaks of time",
    ],
    [
        "not-there",
        "cs_mean_ns",
        "least = 1",
        "futex",
        "no statement is called 'not-there'",
    ],
];

#[test]
fn a_claim_that_its_statement_does_not_say_is_refused() {
    let claim = |statement: &str, measure: &str, bound: &str, of: &str| {
        let text = format!(
            "locks = [\"shuffle\"]\nsays = \"s\"\nscene = \"s\"\nmeasure = \"{measure}\"\nstatement = \"{statement}\"\n\
             {bound}\nof = {{ lock = \"{of}\" }}\n"
        );
        let claim: Claim = toml::from_str(&text).unwrap();
        claim.agrees().err().unwrap_or_default()
    };
    assert_eq!(
        claim("shuffle-46", "cs_mean_ns", "least = 1.46", "futex"),
        ""
    );
    for [statement, measure, bound, of, expected] in WRONG_CLAIMS {
        let wrong = claim(statement, measure, bound, of);
        assert!(wrong.contains(expected), "{statement}: {wrong}");
    }
}

/// A row with the words of the statement, about posix at two threads a context and one.
fn row(name: &str, at: &str, verdict: &str, reason: &str) -> [String; 11] {
    let s = Statement::find(name).unwrap();
    let (place, load) = (s.place(), s.load.text());
    let cells = [
        "posix",
        &place,
        name,
        at,
        &s.printed("posix", None),
        "9 (9 to 9) against 9 (9 to 9), ratio 1.20 (1.10 to 1.30)",
        verdict,
        reason,
        &s.quote,
        &s.machine,
        load,
    ];
    cells.map(str::to_owned)
}

#[test]
fn a_bad_row_of_a_record_is_refused() {
    let scene = "[[scene]]\nname = \"s\"\nthreads = [\"1x\", \"2x\"]\n";
    let claim = |statement: &str, measure: &str, bound: &str| {
        format!(
            "[[claim]]\nlocks = [\"posix\"]\nsays = \"{statement}\"\nscene = \"s\"\nmeasure = \"{measure}\"\n\
             statement = \"{statement}\"\n{bound}\nat = {{ threads = [\"1x\", \"2x\"] }}\nof = {{ lock = \"futex\" }}\n"
        )
    };
    let text = format!(
        "{scene}{}{}{}",
        claim("posix-worse", "cs_mean_ns", "least = 1"),
        claim("spin-then-park-amd", "cs_mean_ns", "most = 1"),
        claim("matches-spinlocks", "throughput_ops_per_ms", "least = 0.9"),
    );
    let installed = installed(&text);
    let wrong = |row: [String; 11]| {
        installed
            .wrong(&row.each_ref().map(String::as_str))
            .unwrap_or_default()
    };
    let (one, two) = ("a thread a context", "2 threads a context");
    let intel = "not judged: the paper says it of Intel CPUs";
    assert_eq!(wrong(row("posix-worse", one, "shown", intel)), "");
    assert!(
        wrong(row("posix-worse", one, "holds", ""))
            .contains("judged, though the paper says it of Intel")
    );
    assert_eq!(wrong(row("matches-spinlocks", one, "holds", "")), "");
    assert!(
        wrong(row("matches-spinlocks", two, "holds", ""))
            .contains("judged, though the paper says it of another load")
    );
    let (name, none) = ("spin-then-park-amd", "no experiment yet");
    assert_eq!(wrong(row(name, two, "not seen", none)), "");
    for (verdict, reason, expected) in [
        ("holds", "", "its numbers give another verdict"),
        (
            "does not hold",
            "the moon",
            "the reason is no experiment yet",
        ),
        ("not seen", "", "the reason is no experiment yet"),
    ] {
        assert!(
            wrong(row(name, two, verdict, reason)).contains(expected),
            "{verdict}"
        );
    }
    for (cell, expected) in [
        (1, "of no claim"),
        (4, "another number"),
        (8, "other words"),
        (9, "other words"),
        (10, "other words"),
    ] {
        let mut bad = row(name, two, "not seen", none);
        bad[cell] = "Fig. 9".into();
        assert!(wrong(bad).contains(expected), "{cell}");
    }
    assert_eq!(Statement::find(name).unwrap().load, Load::Any);
}

/// What a paper says of most locks, or of three virtual CPUs for each CPU, is not judged of one lock, or of two.
#[test]
fn a_row_of_one_of_most_locks_or_of_another_load_is_not_judged() {
    let claim = |statement: &str| {
        format!(
            "[[claim]]\nlocks = [\"posix\"]\nsays = \"{statement}\"\nscene = \"s\"\nstatement = \"{statement}\"\n\
             measure = \"throughput_ops_per_ms\"\nleast = 1\nat = {{ threads = [\"1x\", \"2x\"] }}\n"
        )
    };
    let scene = "[[scene]]\nname = \"s\"\nthreads = [\"1x\", \"2x\"]\n";
    let names = ["hash-busy", "hackbench-three", "hackbench-two"];
    let installed = installed(&format!("{scene}{}", names.map(claim).concat()));
    let wrong = |name: &str, verdict: &str| {
        let row = row(name, "2 threads a context", verdict, "");
        installed.wrong(&row.each_ref().map(String::as_str))
    };
    for (name, why) in [
        ("hash-busy", "of most locks"),
        ("hackbench-three", "of another load: three a context"),
    ] {
        assert!(wrong(name, "holds").unwrap().contains(why), "{name}");
        assert_eq!(wrong(name, "shown"), None);
    }
    assert_eq!(wrong("hackbench-two", "holds"), None);
}
