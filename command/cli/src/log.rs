// SPDX-License-Identifier: MIT
//! What the monitor and libbpf have to say of themselves, on stderr: warnings, and what RUST_LOG asks for
//! (`RUST_LOG=debug`, `RUST_LOG=libbpf=info`).

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use flexguard_launch::output;

pub fn start() {
    let filter = filter(&std::env::var("RUST_LOG").unwrap_or_default());
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(|| output::Notes)
        .with_ansi(false)
        .log_internal_errors(false) // which it does on stderr, in a panic if that is closed
        .without_time();
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .init();
}

fn filter(wanted: &str) -> Targets {
    let usual = Targets::new().with_default(LevelFilter::WARN);
    if wanted.is_empty() {
        return usual;
    }
    wanted.parse().unwrap_or_else(|error| {
        output::note(&format!(
            "flexguard: RUST_LOG={wanted} is not understood: {error}\n"
        ));
        usual
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_let_through_and_nothing_else() {
        let enabled = |wanted: &str| {
            let filter = filter(wanted);
            [
                filter.would_enable("libbpf", &tracing::Level::INFO),
                filter.would_enable("flexguard_monitor", &tracing::Level::INFO),
                filter.would_enable("flexguard_monitor", &tracing::Level::WARN),
            ]
        };
        assert_eq!(enabled(""), [false, false, true]);
        assert_eq!(enabled("libbpf=info"), [true, false, false]);
        assert_eq!(enabled("info"), [true, true, true]);
        assert_eq!(enabled("a=b=c"), enabled(""));
    }
}
