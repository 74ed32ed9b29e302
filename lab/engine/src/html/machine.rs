// SPDX-License-Identifier: MIT
//! The machine, as a page shows it.

use maud::{Markup, html};

use crate::document::Document;

pub fn section(document: &Document) -> Markup {
    html! {
        section #machine aria-labelledby="machine-title" {
            h2 #machine-title { "The machine" }
            dl { @for (name, value) in facts(document) { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// What a reader asks before believing a number.
fn facts(document: &Document) -> [(&'static str, String); 18] {
    let m = &document.machine;
    let text = |value: &Option<String>| value.clone().unwrap_or("unknown".into());
    let load = |value: Option<[f64; 3]>| {
        value.map_or("unknown".into(), |l| {
            format!("{:.2} {:.2} {:.2}", l[0], l[1], l[2])
        })
    };
    [
        (
            "CPU",
            match &m.simulated {
                Some(s) => format!("{}, {}", s.describe(), s.fingerprint),
                None => text(&m.cpu),
            },
        ),
        ("Hardware contexts", m.hardware_contexts.to_string()),
        (
            "Virtual machine",
            if m.virtual_machine { "yes" } else { "no" }.into(),
        ),
        (
            "NUMA nodes",
            m.numa_nodes.map_or("unknown".into(), |n| n.to_string()),
        ),
        (
            "Memory",
            m.memory_kib.map_or("unknown".into(), |k| {
                format!("{:.1} GiB", k as f64 / 1048576.0)
            }),
        ),
        ("Kernel", text(&m.kernel)),
        ("Preemption", text(&m.scheduler.preemption)),
        (
            "Base slice",
            m.scheduler
                .base_slice_ns
                .map_or("unknown".into(), |n| format!("{:.2} ms", n as f64 / 1e6)),
        ),
        ("Scheduler features", text(&m.scheduler.features)),
        ("Frequency governor", text(&m.governor)),
        ("CPU quota", text(&m.cpu_quota)),
        ("C library", m.libc.clone()),
        ("Compiler", text(&document.build.compiler)),
        (
            "FlexGuard",
            format!("{}, commit {}", document.version, text(&document.commit)),
        ),
        ("Monitor", document.monitor.description.clone()),
        ("Load before", load(document.load.before)),
        ("Load after", load(document.load.after)),
        ("Environment", environment(document)),
    ]
}

fn environment(document: &Document) -> String {
    let set = document.environment.iter();
    let set: Vec<String> = set.map(|(k, v)| format!("{k}={v}")).collect();
    if set.is_empty() {
        "nothing that matters".into()
    } else {
        set.join(" ")
    }
}
