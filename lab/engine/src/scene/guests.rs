// SPDX-License-Identifier: MIT
//! Scenes in guest kernels: `guests = "hackbench"` names the load, `options` how many guests and virtual CPUs.

use flexguard_launch::attach::SOCKET_ENV;
use flexguard_launch::names;
use toml::{Spanned, Value};

use super::file::{Checked, Scene, Wrong, plain};
use super::sizes::Sizes;
use crate::guests::{Guests, Load, default_kernels};
use crate::subject::Subject;

/// Names and the greatest values of the options.
const OPTIONS: [(&str, f64); 4] = [
    ("guests", 8.0),
    ("vcpus", 16.0),
    ("burners", 8.0),
    ("section", 1e6),
];

/// At scale 1 a run takes about so long.
const SECONDS: f64 = 2.0;

pub(super) fn guests(
    scene: &Spanned<Scene>,
    name: &Spanned<String>,
    subjects: Vec<Subject>,
    sizes: &Sizes,
) -> Checked<Guests> {
    let s = scene.get_ref();
    let load = Load::named(name.get_ref()).ok_or_else(|| {
        let what = format!("guests have no load '{}'", name.get_ref());
        let loads = Load::ALL.map(Load::name);
        Wrong::at(name, what, names::advice(name.get_ref(), &loads))
    })?;
    let is_other = |s: &&Subject| s.interposed || s.environment.keys().any(|k| k != SOCKET_ENV);
    if let Some(subject) = subjects.iter().find(is_other) {
        let what = format!("'{}': a guest takes locks as they are", subject.name);
        let allowed = format!("of their environment, {SOCKET_ENV}");
        return Err(Wrong::at(scene, what, allowed));
    }
    let mut guests = Guests::new(load, subjects, default_kernels());
    guests.counts = s.counts;
    guests.scale = sizes
        .seconds
        .map_or(s.scale.unwrap_or(1.0), |x| x / SECONDS);
    for (key, value) in &s.options {
        let values = whole(key, value)?;
        match key.as_str() {
            "guests" => guests.guests = values,
            "vcpus" => guests.vcpus = values,
            "section" if load.is_of_threads() => guests.section = values,
            "section" => {
                let what = format!("{} has no section", load.name());
                return Err(Wrong::at(value, what, "lock, locks and turns have one"));
            }
            _ => guests.burners = values,
        }
    }
    Ok(guests)
}

/// That no kernels are built for a scene.
pub(super) fn absent(s: &Scene) -> Option<String> {
    s.guests.as_ref()?;
    let mut subjects: Vec<Subject> = s.locks.iter().map(|l| Subject::of(l)).collect();
    subjects.extend(s.subjects.iter().cloned());
    let mut guests = Guests::new(Load::Lock, subjects, default_kernels());
    guests.counts = s.counts;
    (!guests.is_built()).then(|| "its kernels are not built (lab/guest/build)".to_owned())
}

fn whole(key: &str, value: &Spanned<Value>) -> Checked<Vec<u32>> {
    let Some((_, most)) = OPTIONS.iter().find(|(name, _)| *name == key) else {
        let options = OPTIONS.map(|(name, _)| name);
        let what = format!("guests have no option '{key}'");
        return Err(Wrong::at(value, what, names::advice(key, &options)));
    };
    let least = f64::from(u8::from(key != "burners"));
    let values = plain(value)?;
    if values
        .iter()
        .any(|v| v.fract() != 0.0 || !(least..=*most).contains(v))
    {
        let allowed = format!("whole numbers from {least} to {most}");
        return Err(Wrong::at(value, format!("{key} is out of range"), allowed));
    }
    Ok(values.into_iter().map(|v| v as u32).collect())
}
