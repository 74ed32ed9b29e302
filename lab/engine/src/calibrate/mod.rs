// SPDX-License-Identifier: MIT
//! A machine file of this machine, for the simulator: what can be measured from user mode is, and the rest is taken from
//! the shipped file that is nearest.

mod costs;
mod line;
mod topology;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use flexguard_launch::child::Status;
use flexguard_launch::failure::{Context, Failure, Result};
use flexguard_launch::output;
use flexguard_launch::prefix::Prefix;

use crate::machine::Machine;
use crate::simulated::Simulated;
use crate::sink::Sink;
use line::Line;
use topology::Topology;

/// A shipped machine.
struct Shipped {
    name: String,
    lines: Vec<Line>,
}

impl Shipped {
    fn contexts(&self) -> f64 {
        let of = |key: &str| self.lines.iter().find(|l| l.key == key).map(|l| l.value);
        let all = ["sockets", "complexes", "cores", "threads"];
        all.iter().map(|key| of(key).unwrap_or(1.0)).product()
    }
}

/// Where the file goes: `output`, or standard output.
pub fn run(output: Option<&Path>) -> Result<Status> {
    let prefix = Prefix::find()?;
    let sink = output.map(Sink::open).transpose()?;
    let (machine, topology) = (Machine::here(), Topology::here()?);
    let shipped = shipped(&prefix.machines())?;
    let nearest = nearest(&shipped, &topology, std::env::consts::ARCH)?;
    let measured = costs::measure(&topology)?;
    let text = write(&machine, &topology, &measured, nearest);
    match (&sink, output) {
        (Some(sink), Some(path)) => {
            sink.write(&text)?;
            tell(&prefix, path, &measured)?;
        }
        _ => output::print(&text)?,
    }
    Ok(Status::Exited(0))
}

/// That the simulator reads it, and how much of it was measured.
fn tell(prefix: &Prefix, path: &Path, measured: &[Line]) -> Result<()> {
    let path = std::path::absolute(path).context("cannot tell the current directory")?;
    let count = measured.len();
    let said = format!(
        "{}: {count} costs measured, the others assumed",
        path.display()
    );
    let read = match prefix.simulator(flexguard_launch::locks::POSIX).is_file() {
        true => {
            let machine = Simulated::find(prefix, &path.to_string_lossy())?;
            format!("{} hardware contexts", machine.hardware_contexts)
        }
        false => "the simulators, which would read it, are not built".into(),
    };
    output::print(&format!("{said}; {read}\n"))
}

fn shipped(dir: &Path) -> Result<Vec<Shipped>> {
    let reading = || format!("cannot read {}", dir.display());
    let files = fs::read_dir(dir).context(reading())?;
    let mut paths: Vec<PathBuf> = files.flatten().map(|e| e.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| -> Result<Shipped> {
        let text = fs::read_to_string(path).context(reading())?;
        Ok(Shipped {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            lines: text.lines().filter_map(Line::read).collect(),
        })
    };
    let toml = paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "toml"));
    toml.map(read).collect()
}

/// Of this architecture, the one whose number of hardware contexts is nearest by its ratio; of two CPUs, the one whose
/// CPUs share a core as these do.
fn nearest<'a>(shipped: &'a [Shipped], here: &Topology, arch: &str) -> Result<&'a Shipped> {
    let ours = |m: &&Shipped| m.name.starts_with("arm64") == (arch == "aarch64");
    let far = |m: &&Shipped| {
        let of_core = m
            .lines
            .iter()
            .find(|l| l.key == "threads")
            .map_or(1.0, |l| l.value);
        let shares = (of_core - here.threads as f64).abs();
        (m.contexts() / here.contexts() as f64).ln().abs() + 0.1 * shares
    };
    let found = shipped
        .iter()
        .filter(ours)
        .min_by(|a, b| far(a).total_cmp(&far(b)));
    found.ok_or_else(|| {
        Failure::new(format_args!("no machine file of {arch} is installed"))
            .advice("share/flexguard/machines of the installation has them")
    })
}

/// The text of the file.
fn write(machine: &Machine, topology: &Topology, measured: &[Line], nearest: &Shipped) -> String {
    let mut lines = topology.lines();
    lines.extend(measured.iter().cloned());
    let known: BTreeMap<&str, ()> = lines.iter().map(|l| (l.key.as_str(), ())).collect();
    let assumed = nearest
        .lines
        .iter()
        .filter(|l| !known.contains_key(l.key.as_str()));
    let assumed: Vec<Line> = assumed
        .map(|l| {
            Line::new(
                &l.key,
                l.value,
                &format!("assumed, as {} has it: {}", nearest.name, l.source),
            )
        })
        .collect();
    let mut text = format!(
        "# Made by `flexguard bench machine` on {}.\n# Costs are of user mode; what it could not measure is as in \
         {}.toml, or, where no line says it, as in lab/simulator/machine.h.\n",
        machine.describe(),
        nearest.name
    );
    for line in lines.iter().chain(&assumed) {
        let _ = writeln!(
            text,
            "{} = {} # {}",
            line.key,
            shown(line.value),
            line.source
        );
    }
    text
}

/// Three significant digits, and whole numbers whole.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return format!("{value:.0}");
    }
    format!("{value:.*}", crate::measure::digits(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cpus() -> Topology {
        Topology::of(&[[0, 0, 0], [0, 0, 0]], vec![0, 1])
    }

    fn shipped(name: &str, threads: f64, cores: f64) -> Shipped {
        let line = |key: &str, value| Line::new(key, value, "known");
        Shipped {
            name: name.into(),
            lines: vec![
                line("cores", cores),
                line("threads", threads),
                line("remote", 140.0),
            ],
        }
    }

    #[test]
    fn the_nearest_machine_has_as_many_contexts_and_the_architecture() {
        let all = [
            shipped("far", 1.0, 2.0),
            shipped("near", 2.0, 1.0),
            shipped("large", 2.0, 52.0),
            shipped("arm64-2", 2.0, 1.0),
        ];
        let name = |arch| nearest(&all, &two_cpus(), arch).unwrap().name.clone();
        assert_eq!(
            (name("x86_64").as_str(), name("aarch64").as_str()),
            ("near", "arm64-2")
        );
        assert!(nearest(&all[..3], &two_cpus(), "aarch64").is_err());
    }

    #[test]
    fn two_threads_of_a_core_have_a_machine_of_their_own() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines");
        let all = super::shipped(&dir).unwrap();
        let two_cores = Topology::of(&[[0, 0, 0], [0, 0, 1]], vec![0, 1]);
        let name = |here: &Topology| nearest(&all, here, "x86_64").unwrap().name.as_str();
        assert_eq!(name(&two_cpus()), "core");
        assert_ne!(name(&two_cores), "core");
    }

    #[test]
    fn what_was_not_measured_is_marked() {
        let measured = [Line::new("pause", 24.4321, "measured")];
        let text = write(
            &Machine::here(),
            &two_cpus(),
            &measured,
            &shipped("near", 2.0, 1.0),
        );
        for line in [
            "threads = 2 # /sys/devices/system/cpu",
            "pause = 24.4 # measured",
            "remote = 140 # assumed, as near has it: known",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        let read: Vec<Line> = text.lines().filter_map(Line::read).collect();
        assert_eq!(read.iter().filter(|l| l.key == "threads").count(), 1);
    }
}
