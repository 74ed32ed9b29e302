// SPDX-License-Identifier: MIT
//! The profile as one page that fetches nothing.

use flexguard_bench::page_head;
use maud::{DOCTYPE, Markup, html};

use super::files::Graphs;
use super::record::{Lock, Process, Profile, duration};
use super::table::times;

/// The table has many columns, and none is cut at 800 pixels: so a lock's name has a line of its own above its numbers.
const STYLE: &str = "iframe { width: 100%; border: 0; background: #fff; } body { max-width: 84rem; } h1, h2, summary, li \
    { overflow-wrap: anywhere; } .locks td { padding: 0 .4rem .4rem; } .locks tbody th { padding: .4rem .4rem 0; \
    text-align: left; white-space: normal; overflow-wrap: anywhere; } .locks .kind { color: var(--muted); } .locks tbody \
    { border-bottom: 1px solid var(--rule); } @media (max-width: 75rem) { .locks table { font-size: .68rem; } .locks th, \
    .locks td { padding-left: .15rem; padding-right: .15rem; } }";

/// In the frame the image has no width of its own.
const FRAME: &str = "<style>body { margin: 0; } svg { display: block; width: 100%; }</style>";

/// Locks of a process and call sites of a lock that are shown; profile.json has more.
const LOCKS: usize = 100;
const SITES: usize = 10;

/// `graphs` are the flame graphs that there are.
pub fn page(profile: &Profile, graphs: &Graphs) -> String {
    let command = profile.command.join(" ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head(&format!("{command} - FlexGuard profile"), STYLE))
            body {
                a.skip href="#main" { "Skip to the locks" }
                header {
                    p.brand { "FlexGuard profile" }
                    h1 { (command) }
                    p.facts { "lock " (profile.lock) " · " (format!("{:.2}", profile.elapsed_seconds)) " s" }
                }
                main #main {
                    @if profile.processes.is_empty() { p.note { "No lock was used." } }
                    @for (column, svg) in graphs { (graph(column.title, svg)) }
                    @for process in &profile.processes { (of_process(process)) }
                    (method(profile))
                }
                footer { "Made by " code { "flexguard profile" } " " (profile.version) "." }
            }
        }
    };
    page.into_string()
}

/// In a frame of its own: the script of one graph does not see the other's elements.
fn graph(title: &str, svg: &str) -> Markup {
    let height = between(svg, "height=\"", "\"").unwrap_or("600");
    html! {
        h2 { (title) }
        iframe title=(title) height=(height) srcdoc={ (FRAME) (svg) } {}
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?
        .1
        .split_once(after)
        .map(|(found, _)| found)
}

fn of_process(process: &Process) -> Markup {
    let lost = &process.lost;
    html! {
        h2 { (process.name) " [" (process.pid) "]: " (super::table::kinds(process)) }
        @if lost.any() {
            p.note {
                "Lost, because tables were full: " (lost.acquisitions) " acquisitions, " (lost.call_sites)
                " call sites, " (lost.holds) " timed holds."
            }
        }
        div.scroll.locks tabindex="0" role="region" aria-label={ "The locks of " (process.name) } {
            table {
                thead { tr {
                    @for title in ["acquired", "contended", "waited", "p50", "p99", "max", "held", "p50",
                        "p99", "max", "preempted", "for"] {
                        th scope="col" { (title) }
                    }
                } }
                @for lock in process.locks.iter().take(LOCKS) { (rows(lock)) }
            }
        }
        @if process.locks.len() > LOCKS { p { (process.locks.len() - LOCKS) " locks more are in profile.json." } }
        @for lock in process.locks.iter().take(LOCKS) { (sites(lock)) }
    }
}

fn rows(lock: &Lock) -> Markup {
    let preempted = lock.preempted.map_or(["?".into(), "?".into()], |p| {
        [p.count.to_string(), duration(p.seconds * 1e6)]
    });
    html! {
        tbody {
            tr {
                th scope="rowgroup" colspan="12" title=(format!("{:#x}", lock.address)) {
                    (lock.label()) " " span.kind { (lock.kind.text()) }
                }
            }
            tr {
                td { (lock.acquisitions) }
                td { (format!("{:.1} %", lock.contended_share * 100.0)) }
                @for time in some_of(times(lock.wait.as_ref())) { td { (time) } }
                @for time in some_of(times(lock.hold.as_ref())) { td { (time) } }
                @for value in preempted { td { (value) } }
            }
        }
    }
}

/// profile.json has p90, too.
fn some_of([total, p50, _, p99, max]: [String; 5]) -> [String; 4] {
    [total, p50, p99, max]
}

fn sites(lock: &Lock) -> Markup {
    let of = if lock.wait.is_some() {
        "waiting"
    } else {
        "acquisitions"
    };
    html! {
        details {
            summary { "Who uses " (lock.label()) }
            ol {
                @for (site, share) in lock.sites.iter().zip(lock.shares()).take(SITES) {
                    li { (format!("{:.0} % of the {of}: ", share * 100.0)) code { (site.text()) } }
                }
            }
        }
    }
}

fn method(profile: &Profile) -> Markup {
    html! {
        h2 { "What the numbers mean" }
        ul.method {
            li { "Acquisitions are all counted. Contended: the mutex was held when the thread asked for it." }
            li { "Times are estimates from those acquisitions that were timed; percentiles are right within 12 %. The "
                "wait is that of contended acquisitions." }
            li { "Call stacks follow frame pointers: code without them shows its innermost function only." }
            li { "profile.json holds all of it; " code { "flexguard profile --open" } " shows it again. wait.folded and "
                "hold.folded are for flame graph tools, profile.pb.gz for pprof, perfetto.json for ui.perfetto.dev." }
            @if let Some(why) = &profile.preemptions_unknown {
                li { "How often holders were preempted is unknown: " (why) "." }
            } @else {
                li { "Preempted: how often, and for how long, a thread lost its CPU while it held the mutex." }
            }
        }
    }
}
