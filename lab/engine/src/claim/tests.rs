// SPDX-License-Identifier: MIT
//! Tests of claims: their verdicts, the points that they speak of, what is said where one does not hold.

use super::*;
use crate::point::Point;

fn of(values: [f64; 7]) -> Estimate {
    Estimate::of((0..).zip(values)).unwrap()
}

#[test]
fn verdicts_heed_the_noise() {
    let (a, b) = (
        of([10.0, 11.0, 12.0, 12.0, 12.0, 13.0, 14.0]),
        of([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0]),
    );
    for (x, y, least, factor, expected) in [
        (&a, &b, true, 3.0, Verdict::Holds),
        (&a, &b, true, 5.0, Verdict::WithinNoise),
        (&a, &b, true, 7.0, Verdict::FailsWithinNoise),
        (&a, &b, true, 15.0, Verdict::Fails),
        (&b, &a, false, 0.5, Verdict::Holds),
        (&b, &a, false, 0.2, Verdict::WithinNoise),
        (&b, &a, false, 0.1, Verdict::FailsWithinNoise),
        (&b, &a, false, 0.05, Verdict::Fails),
    ] {
        assert_eq!(
            Verdict::of(x, y, least, factor),
            expected,
            "{least} {factor}"
        );
    }
}

/// 0.9996 is not 1 or more; written with three digits it would be.
#[test]
fn what_is_shown_has_the_digits_that_the_verdict_needs() {
    let text = "locks = [\"mcs\"]\nsays = \"wins\"\nscene = \"s\"\nleast = 1\n";
    let claim: Claim = toml::from_str(text).unwrap();
    let shown = |a: f64, b: Option<f64>, unit: Unit| {
        let (a, b) = (of([a; 7]), b.map(|b| of([b; 7])));
        claim.shown((unit, &a), b.as_ref().map(|b| (unit, b)))
    };
    for (a, b, unit, expected) in [
        (0.9996, None, Unit::Plain, "0.9996 (0.9996 to 0.9996)"),
        (0.9516, None, Unit::Plain, "0.952 (0.952 to 0.952)"),
        (7.4, Some(7.6), Unit::Count, "7 (7 to 7) against 8 (8 to 8)"),
        (
            7.6,
            Some(8.4),
            Unit::Count,
            "7.6 (7.6 to 7.6) against 8.4 (8.4 to 8.4)",
        ),
        (
            123.44,
            Some(123.4401),
            Unit::OpsPerMs,
            "123.4400 (123.4400 to 123.4400) against 123.4401 (123.4401 to 123.4401)",
        ),
    ] {
        let (measured, verdict) = shown(a, b, unit);
        assert_eq!((measured.as_str(), verdict), (expected, Verdict::Fails));
    }
    let (measured, verdict) = shown(1.0004, None, Unit::Plain);
    assert_eq!(
        (measured.as_str(), verdict),
        ("1.00 (1.00 to 1.00)", Verdict::Holds)
    );
}

#[test]
fn several_values_are_a_claim_each() {
    let text = "locks = [\"mcs\"]\nsays = \"wins\"\nscene = \"s\"\nleast = 1\n\
                at = { threads = [\"1x\", \"4x\", 3], hogs = 0, cycles_between = [100, 1000] }";
    let claim: Claim = toml::from_str(text).unwrap();
    let claims = claim.each();
    let points: Vec<&str> = claims.iter().map(|c| c.point.as_str()).collect();
    assert_eq!(
        points,
        [
            "100 cycles between, a thread a context",
            "100 cycles between, 4 threads a context",
            "100 cycles between, 3 threads",
            "1000 cycles between, a thread a context",
            "1000 cycles between, 4 threads a context",
            "1000 cycles between, 3 threads",
        ]
    );
    assert!(claims.iter().all(|c| c.says == "wins"));
    assert_eq!(claims[4].at["threads"].as_str(), Some("4x"));
    assert_eq!(claims[4].at["cycles_between"].as_integer(), Some(1000));
    assert_eq!(claims[4].at["hogs"].as_integer(), Some(0));
}

#[test]
fn a_place_is_numbers_or_factors() {
    let contexts = machine::contexts() as f64;
    let point = Point::default()
        .with("threads", 4.0 * contexts)
        .with("hogs", 0.0);
    let at = |text: &str| toml::from_str(text).unwrap();
    assert!(is_at(&point, &at("threads = \"4x\"")) && is_at(&point, &at("hogs = 0")));
    assert!(!is_at(&point, &at("threads = \"4x\"\nhogs = 1")) && !is_at(&point, &at("nice = 0")));
}

fn reasons() -> Vec<Reason> {
    let of = |text: &str| toml::from_str(text).unwrap();
    vec![
        of("name = \"spin\"\nsays = \"it spins\"\nexperiment = \"bench shm: 9 and 8\""),
        of("name = \"sleep\"\nsays = \"it sleeps\"\nexperiment = \"bench shm: 7\""),
    ]
}

/// A reason is shown for its locks and at its points only, and the first that fits.
#[test]
fn what_does_not_hold_shows_its_reason() {
    let recorded = crate::document::testing::document();
    let text = "locks = [\"mcs\", \"flexguard\"]\nsays = \"is slow\"\nscene = \"s\"\n\
                measure = \"throughput_ops_per_ms\"\nat = { threads = [1, 8] }\nmost = 0\n\
                reasons = [{ reason = \"spin\", locks = [\"mcs\"], at = { threads = [8] } },\n\
                { reason = \"sleep\", at = { threads = 8 } }]\n";
    let mut claim: Claim = toml::from_str(text).unwrap();
    claim.explain(reasons().iter()).unwrap();
    let judged = judge(&claim.clone().each(), &[("s".into(), &recorded)]);
    let told: Vec<_> = judged
        .iter()
        .map(|j| {
            (
                j.lock.as_str(),
                j.at.as_str(),
                j.verdict,
                j.reason.as_str(),
                j.experiment.as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("mcs", "1 thread", Verdict::Fails, "", ""),
            ("flexguard", "1 thread", Verdict::Fails, "", ""),
            (
                "mcs",
                "8 threads",
                Verdict::Fails,
                "it spins",
                "bench shm: 9 and 8"
            ),
            (
                "flexguard",
                "8 threads",
                Verdict::Fails,
                "it sleeps",
                "bench shm: 7"
            ),
        ]
    );
    assert!(judged[2].to_string().ends_with(": it spins"));
    for (wrong, expected) in [
        (
            text.replace("\"sleep\"", "\"dance\""),
            "no reason is called 'dance'",
        ),
        (
            text.replace("locks = [\"mcs\"],", "locks = [\"clh\"],"),
            "about clh",
        ),
        (
            text.replace("at = { threads = 8 }", "at = { hogs = 8 }"),
            "about hogs",
        ),
    ] {
        let mut claim: Claim = toml::from_str(&wrong).unwrap();
        let told = claim.explain(reasons().iter()).unwrap_err();
        assert!(told.contains(expected), "{told}");
    }
}

/// The recorded rounds say: at 1 thread all are equal, at 8 mcs collapses, and nothing ran at 4.
#[test]
fn recorded_rounds_are_judged_at_each_point() {
    let recorded = crate::document::testing::document();
    let claim = |text: &str| -> Vec<Judged> {
        let head = "scene = \"s\"\nmeasure = \"throughput_ops_per_ms\"\nsays = \"is so\"\n";
        let mut claim: Claim = toml::from_str(&format!("{head}{text}")).unwrap();
        claim.explain(reasons().iter()).unwrap();
        judge(&claim.each(), &[("s".into(), &recorded)])
    };
    let verdicts = |judged: &[Judged]| -> Vec<(String, String, Verdict)> {
        let row = |j: &Judged| (j.lock.clone(), j.at.clone(), j.verdict);
        judged.iter().map(row).collect()
    };
    let row = |lock: &str, at: &str, verdict| (lock.to_owned(), at.to_owned(), verdict);
    let against_posix = claim(
        "locks = [\"mcs\", \"flexguard\"]\nat = { threads = [2, 4, 8] }\nleast = 1\n\
         of = { lock = \"posix\" }\nreasons = [{ reason = \"spin\" }]",
    );
    assert_eq!(
        verdicts(&against_posix),
        [
            row("mcs", "2 threads", Verdict::Holds),
            row("flexguard", "2 threads", Verdict::Holds),
            row("mcs", "4 threads", Verdict::NotMeasured),
            row("flexguard", "4 threads", Verdict::NotMeasured),
            row("mcs", "8 threads", Verdict::Fails),
            row("flexguard", "8 threads", Verdict::Holds),
        ]
    );
    let reasons: Vec<&str> = against_posix.iter().map(|j| j.reason.as_str()).collect();
    assert_eq!(reasons, ["", "", "", "", "it spins", ""]);
    assert!(
        against_posix[4]
            .to_string()
            .starts_with("mcs: is so, 8 threads: does not hold: ")
    );
    assert_eq!(
        summary(&against_posix),
        "Of 6 verdicts, one for each lock and point: \
         3 holds; 0 holds within the noise; 0 fails within the noise; 1 does not hold; 0 not seen; 0 too few rounds; \
         2 not measured; 0 shown."
    );
    let against_itself = claim(
        "locks = [\"mcs\"]\nat = { threads = [2, 8] }\nmost = 0.5\nof = { at = { threads = 1 } }",
    );
    assert_eq!(
        verdicts(&against_itself),
        [
            row("mcs", "2 threads", Verdict::Fails),
            row("mcs", "8 threads", Verdict::Holds),
        ]
    );
    let table = table("T", &recorded.machine, &against_posix);
    assert!(table.contains("| mcs |  | is so | 8 threads |  | "));
    assert!(table.contains("**does not hold**: it spins |"), "{table}");
    assert!(
        table.ends_with("- it spins: bench shm: 9 and 8\n"),
        "{table}"
    );
}

/// A claim about mcs at 8 threads, after a change of what was recorded.
fn judged_after(claim: &str, change: impl Fn(&mut Document)) -> (String, Verdict) {
    let mut recorded = crate::document::testing::document();
    change(&mut recorded);
    recorded.analyse();
    let head = "locks = [\"mcs\"]\nscene = \"s\"\nmeasure = \"throughput_ops_per_ms\"\nsays = \"is so\"\n\
                at = { threads = 8 }\n";
    let claim: Claim = toml::from_str(&format!("{head}{claim}")).unwrap();
    let judged = judge(&[claim], &[("s".into(), &recorded)]);
    (judged[0].measured.clone(), judged[0].verdict)
}

fn rounds_of<'a>(document: &'a mut Document, lock: &str) -> &'a mut Vec<crate::document::Sample> {
    let point = Point::default().with("threads", 8.0);
    let entry = document.entry_mut(&point, lock, false).unwrap();
    &mut entry.rounds
}

#[test]
fn of_fewer_than_six_rounds_nothing_is_concluded() {
    let keep = |n: usize| {
        move |document: &mut Document| {
            for lock in ["mcs", "posix"] {
                rounds_of(document, lock).truncate(n);
            }
        }
    };
    let of_posix = "of = { lock = \"posix\" }\n";
    for (bound, expected) in [
        ("most = 1\n", Verdict::Holds),
        ("least = 1\n", Verdict::Fails),
    ] {
        let against_posix = format!("{bound}{of_posix}");
        let (text, verdict) = judged_after(&against_posix, keep(6));
        assert_eq!(verdict, expected, "{text}");
        let (text, verdict) = judged_after(&against_posix, keep(5));
        assert_eq!(verdict, Verdict::TooFewRounds, "{text}");
        assert!(text.contains(", ratio 0."), "{text}");
    }
    for (bound, expected) in [
        ("least = 1\n", Verdict::Holds),
        ("most = 1\n", Verdict::Fails),
    ] {
        assert_eq!(judged_after(bound, keep(6)).1, expected);
        assert_eq!(judged_after(bound, keep(5)).1, Verdict::TooFewRounds);
    }
    assert_eq!(judged_after("", keep(1)).1, Verdict::Shown);
}

/// Rounds differ by a factor of 100, in which mcs has 1.2 times posix's speed each time.
#[test]
fn with_another_lock_it_is_compared_round_by_round() {
    let drift = |document: &mut Document| {
        for (lock, times) in [("posix", 100.0), ("mcs", 120.0)] {
            for (i, sample) in rounds_of(document, lock).iter_mut().enumerate() {
                let value = times * 2.0f64.powi(i as i32);
                sample.values.insert("throughput_ops_per_ms".into(), value);
            }
        }
    };
    let claim = "least = 1.1\nof = { lock = \"posix\" }\n";
    let (text, verdict) = judged_after(claim, drift);
    assert_eq!(verdict, Verdict::Holds);
    assert!(text.ends_with(", ratio 1.20 (1.20 to 1.20)"), "{text}");
    // With rounds that are not the same ones, the intervals are compared.
    let (text, verdict) = judged_after(claim, |document| {
        drift(document);
        for sample in rounds_of(document, "posix") {
            sample.round += 100;
        }
    });
    assert_eq!(verdict, Verdict::WithinNoise);
    assert!(!text.contains("ratio"), "{text}");
}

#[test]
fn a_run_without_a_result_is_not_dropped() {
    let claim = "least = 1\n";
    let (_, verdict) = judged_after(claim, |_| {});
    assert_eq!(verdict, Verdict::Holds);
    let without = |n: usize| {
        move |document: &mut Document| {
            for sample in rounds_of(document, "mcs").iter_mut().take(n) {
                sample.values.remove("throughput_ops_per_ms");
            }
        }
    };
    let (text, verdict) = judged_after(claim, without(1));
    assert_eq!(verdict, Verdict::TooFewRounds);
    assert!(text.ends_with("; a result in 6 of 7 rounds"), "{text}");
    for claim in [claim, "least = 1\nof = { lock = \"posix\" }\n"] {
        let nothing = judged_after(claim, without(7));
        let expected = ("a result in 0 of 7 rounds".into(), Verdict::TooFewRounds);
        assert_eq!(nothing, expected);
    }
    // Nor is one that failed.
    let (text, verdict) = judged_after(claim, |document| {
        let round = rounds_of(document, "mcs").pop().unwrap().round;
        document.failures.push(crate::document::FailedRun {
            round,
            point: Point::default().with("threads", 8.0),
            subject: "mcs".into(),
            reason: "hung".into(),
        });
    });
    assert_eq!(verdict, Verdict::TooFewRounds);
    assert!(text.ends_with("; a result in 6 of 7 rounds"), "{text}");
    let (_, verdict) = judged_after(claim, |document| rounds_of(document, "mcs").clear());
    assert_eq!(verdict, Verdict::NotMeasured);
    // Where the claim is that every run ends, it contradicts the claim.
    let ends = format!("{claim}ends = true\n");
    assert_eq!(judged_after(&ends, without(1)).1, Verdict::Fails);
    assert_eq!(judged_after(&ends, |_| {}).1, Verdict::Holds);
}

/// A claim that names the statement, about a lock that collapses, on such CPUs and so many contexts.
fn judged_of(statement: &str, cpu: Option<&str>, contexts: usize) -> Judged {
    let mut recorded = crate::document::testing::document();
    recorded.machine.cpu = cpu.map(Into::into);
    recorded.machine.hardware_contexts = contexts;
    let text = format!(
        "locks = [\"mcs\"]\nsays = \"is so\"\nscene = \"s\"\nmeasure = \"throughput_ops_per_ms\"\n\
         at = {{ threads = 8 }}\nleast = 1e12\nstatement = \"{statement}\"\n"
    );
    let claim: Claim = toml::from_str(&text).unwrap();
    let judged = judge(&[claim], &[("s".into(), &recorded)]).remove(0);
    assert!(!judged.measured.is_empty());
    judged
}

/// The papers say opposite things of the CPUs of two makers.
#[test]
fn a_claim_about_other_cpus_is_shown_and_not_judged() {
    let judged_on = |cpu| judged_of("u-scl-posix", cpu, 2);
    let here = judged_on(Some("Intel(R) Xeon(R) Gold 5320"));
    assert_eq!(here.verdict, Verdict::Unexplained);
    assert_eq!(here.reason, "no experiment yet");
    assert_eq!(here.published, "");
    for cpu in [Some("AMD EPYC 9754"), None] {
        let judged = judged_on(cpu);
        assert_eq!(judged.verdict, Verdict::Shown);
        assert_eq!(judged.reason, "not judged: the paper says it of Intel CPUs");
    }
}

/// What the paper says of as many threads as contexts is not held against more threads, and the other way round. It
/// prints a number for each.
#[test]
fn a_claim_about_another_load_is_shown_and_not_judged() {
    for (statement, contexts, judges) in [
        ("matches-spinlocks", 2, false),
        ("matches-spinlocks", 8, true),
        ("no-collapse", 2, true),
        ("no-collapse", 8, false),
        ("fair", 4, false),
        ("mcs-tp-light", 7, true),
        ("mcs-tp-light", 6, false),
    ] {
        let judged = judged_of(statement, Some("Intel"), contexts);
        assert_eq!(judged.verdict != Verdict::Shown, judges, "{statement}");
        let other = judged
            .reason
            .starts_with("not judged: the paper says it of another load");
        assert_eq!(other, !judges, "{statement}: {}", judged.reason);
    }
    let printed = |contexts| judged_of("index", None, contexts).published;
    assert_eq!(
        [printed(8), printed(4)],
        ["4.2 times on average", "3.4 times on average"]
    );
}

mod of_all;
mod records;
