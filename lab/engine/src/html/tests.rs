// SPDX-License-Identifier: MIT
//! Tests of the page: it is complete in itself, and what others wrote does no harm in it.

use super::super::claim::Verdict;
use super::super::document::testing;
use super::*;

#[test]
fn the_page_is_complete_in_itself() {
    let document = testing::document();
    let page = page(&[&document, &document], &[], None).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    // The namespace of SVG is a name, not an address that is fetched.
    let rest = page.replace("http://www.w3.org/2000/svg", "");
    for fetched in [
        "http:", "https:", "src=", "@import", "url(", "<script", "<link",
    ] {
        assert!(!rest.contains(fetched), "{fetched}");
    }
    assert_eq!(
        page.matches("<svg ").count(),
        page.matches("</svg>").count()
    );
    assert!(page.matches("<svg ").count() >= 2);
}

#[test]
fn what_others_call_themselves_is_not_markup() {
    let mut document = testing::document();
    document.title = "<script>alert(1)</script>".into();
    document.subjects[0] = "<b>".into();
    for entry in &mut document.results {
        if entry.subject == "posix" {
            entry.subject = "<b>".into();
        }
    }
    document.analyse();
    let page = page(&[&document], &[], None).unwrap();
    assert!(!page.contains("<script>") && !page.contains("<b>"));
    assert!(page.contains("&lt;b&gt;"));
}

#[test]
fn verdicts_cautions_and_commands_are_told() {
    let mut document = testing::document();
    document.command = vec!["/opt/x/flexguard".into(), "bench".into(), "it's".into()];
    let page = page(&[&document], &[], None).unwrap();
    for part in [
        "wins",
        "cannot be told apart",
        "differed from itself",
        "flexguard bench 'it'\\''s'",
        "Incomplete",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("/opt/x"));
}

#[test]
fn claims_have_a_table_with_what_was_published_and_what_was_measured() {
    let judged = Judged {
        lock: "mcs".into(),
        place: "Fig. 3a".into(),
        quote: "the severe degradation".into(),
        said_of: "Intel".into(),
        subscription: "oversubscribed".into(),
        claim: "collapses <here>".into(),
        at: "8 threads".into(),
        published: "a tenth".into(),
        measured: "1 against 20".into(),
        verdict: Verdict::Fails,
        reason: "one waiter".into(),
        experiment: "bench shm: 9 and 8".into(),
        result: testing::document().title,
    };
    let mut document = testing::document();
    document.figures[0].paper = "30,000 times".into();
    let page = page(&[&document], &[judged], None).unwrap();
    for part in [
        "What the papers claim",
        "the severe degradation",
        "Fig. 3a",
        "collapses &lt;here&gt;",
        "a tenth",
        "1 against 20",
        "8 threads",
        "does not hold: one waiter",
        "The experiments behind the reasons",
        "bench shm: 9 and 8",
        "1 does not hold",
        "The papers print a tenth (Fig. 3a). Here:",
        "The paper prints: 30,000 times.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("**does not hold**"));
}
