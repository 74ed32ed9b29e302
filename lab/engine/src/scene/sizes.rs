// SPDX-License-Identifier: MIT
//! How much of a file of scenes is measured: its own sizes, others, or its short version.

use toml::{Spanned, Value};

use super::file::{Quick, Scene};
use crate::machine;
use crate::simulated::Simulated;

/// Instead of what a file says.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    pub rounds: Option<u32>,
    pub seconds: Option<f64>,
    pub warmup: Option<f64>,
    /// Empty: the file's.
    pub locks: Vec<String>,
    /// The short version.
    pub quick: bool,
    /// On this machine, and not here.
    pub simulated: Option<Simulated>,
}

impl Sizes {
    /// Those of the machine that it runs on.
    pub(super) fn contexts(&self) -> usize {
        let simulated = self.simulated.as_ref();
        simulated.map_or_else(machine::contexts, |s| s.hardware_contexts)
    }

    /// The file's own, on the same machine.
    pub(super) fn of_file(&self) -> Self {
        Self {
            simulated: self.simulated.clone(),
            ..Self::default()
        }
    }

    /// With those of the short version, where no others are asked for.
    pub(super) fn or(&self, quick: &Quick) -> Self {
        let mut sizes = self.clone();
        if self.quick {
            sizes.rounds = sizes.rounds.or(quick.rounds);
            sizes.seconds = sizes.seconds.or(quick.seconds);
        }
        sizes
    }

    /// The seconds of the short version where a scene has its own.
    pub(super) fn of(&self, scene: &Scene, given: Option<f64>) -> Self {
        let mut sizes = self.clone();
        if self.quick && given.is_none() && scene.quick_seconds.is_some() {
            sizes.seconds = scene.quick_seconds;
        }
        sizes
    }

    /// The scene with the locks and at the points that are measured.
    pub(super) fn applied(&self, scene: &Spanned<Scene>, quick: &Quick) -> Spanned<Scene> {
        let mut scene = scene.clone();
        let s = scene.get_mut();
        if self.quick {
            keep(&mut s.locks, &quick.locks);
            keep_values(&mut s.threads, &quick.threads);
            keep_values(&mut s.hogs, &quick.hogs);
        }
        if !self.locks.is_empty() {
            s.locks = self.locks.clone();
            s.subjects.clear();
        }
        scene
    }
}

/// Those that are chosen; all, if none is.
fn keep<T: PartialEq>(all: &mut Vec<T>, chosen: &[T]) {
    if all.iter().any(|v| chosen.contains(v)) {
        all.retain(|v| chosen.contains(v));
    }
}

fn keep_values(values: &mut Option<Spanned<Value>>, chosen: &[Value]) {
    if let Some(Value::Array(all)) = values.as_mut().map(Spanned::get_mut) {
        keep(all, chosen);
    }
}
