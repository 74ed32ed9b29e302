// SPDX-License-Identifier: MIT
//! An experiment: a workload, how often it runs, and the figures that are made of it.

use crate::figure::FigureSpec;
use crate::options::Plan;
use crate::session::Session;
use crate::workload::Workload;

pub struct Experiment {
    /// Names its file.
    pub id: String,
    pub title: String,
    pub workload: Box<dyn Workload>,
    pub plan: Plan,
    pub figures: Vec<FigureSpec>,
    /// What it is judged by, if not the workload's own measure.
    pub primary: Option<String>,
}

impl Experiment {
    /// How many, and about how many seconds they take.
    pub fn runs(&self) -> (usize, f64) {
        let steps = Session::steps(self.workload.as_ref(), &self.plan);
        (steps.len(), steps.iter().map(|s| s.1).sum())
    }
}
