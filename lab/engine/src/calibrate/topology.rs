// SPDX-License-Identifier: MIT
//! Which CPUs share a core, a cache and a socket.

use std::collections::BTreeSet;
use std::fs;

use flexguard_launch::failure::{Context, Result};

use super::Line;

/// Of the CPUs that this process may use. The model is regular: where a machine is not, it has the CPUs of the smallest
/// part in each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Topology {
    pub cpus: Vec<usize>,
    places: Vec<[usize; 3]>,
    sockets: usize,
    complexes: usize,
    cores: usize,
    pub threads: usize,
}

/// How far apart two CPUs are: the key of a machine file.
pub(super) const DISTANCES: [&str; 4] = ["hyperthread", "complex", "socket", "remote"];

impl Topology {
    pub fn here() -> Result<Self> {
        let cpus = allowed()?;
        let read = |cpu: &usize, file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
            let text = fs::read_to_string(path).unwrap_or_default();
            let first = text.trim().split([',', '-']).next().map(str::to_owned);
            first.and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        let place = |cpu: &usize| {
            [
                read(cpu, "topology/physical_package_id"),
                read(cpu, "cache/index3/shared_cpu_list"),
                read(cpu, "topology/thread_siblings_list"),
            ]
        };
        let places: Vec<_> = cpus.iter().map(place).collect();
        Ok(Self::of(&places, cpus))
    }

    /// `places`: the socket, complex and core of each CPU.
    pub fn of(places: &[[usize; 3]], cpus: Vec<usize>) -> Self {
        let parts = |n: usize| {
            let all: BTreeSet<&[usize]> = places.iter().map(|p| &p[..n]).collect();
            all.len().max(1)
        };
        let (sockets, complexes, cores) = (parts(1), parts(2), parts(3));
        Self {
            sockets,
            complexes: complexes / sockets,
            cores: cores / complexes,
            threads: places.len() / cores,
            places: places.to_vec(),
            cpus,
        }
    }

    pub fn contexts(&self) -> usize {
        self.sockets * self.complexes * self.cores * self.threads
    }

    pub fn lines(&self) -> Vec<Line> {
        let source = match self.contexts() == self.cpus.len() {
            true => "/sys/devices/system/cpu".to_owned(),
            false => format!(
                "/sys/devices/system/cpu; {} CPUs, which are not alike, as {}",
                self.cpus.len(),
                self.contexts()
            ),
        };
        let line = |(key, n): (&str, usize)| Line::new(key, n as f64, &source);
        [
            ("sockets", self.sockets),
            ("complexes", self.complexes),
            ("cores", self.cores),
            ("threads", self.threads),
        ]
        .map(line)
        .to_vec()
    }

    /// Two CPUs at each distance that there is: its place in DISTANCES, and the CPUs.
    pub fn pairs(&self) -> Vec<(usize, [usize; 2])> {
        let mut pairs: Vec<(usize, [usize; 2])> = Vec::new();
        for (i, a) in self.places.iter().enumerate() {
            for (j, b) in self.places.iter().enumerate().skip(i + 1) {
                let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
                if !pairs.iter().any(|(distance, _)| *distance == 3 - same) {
                    pairs.push((3 - same, [self.cpus[i], self.cpus[j]]));
                }
            }
        }
        pairs.sort();
        pairs
    }

    /// The CPUs of the first CPU's socket.
    pub fn neighbours(&self) -> Vec<usize> {
        let same = |i: &usize| self.places[*i][0] == self.places[0][0];
        (0..self.cpus.len())
            .filter(same)
            .map(|i| self.cpus[i])
            .collect()
    }
}

fn allowed() -> Result<Vec<usize>> {
    // SAFETY: a set of no CPUs is zeros, and the kernel writes no more than the size that it is given.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot tell the allowed CPUs");
        }
        set
    };
    // SAFETY: the numbers are within the set.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sockets_of_two_cores_of_two_threads() {
        let places: Vec<[usize; 3]> = (0..8)
            .map(|cpu| [cpu % 4 / 2, cpu % 4 / 2, cpu % 4])
            .collect();
        let t = Topology::of(&places, (0..8).collect());
        assert_eq!((t.sockets, t.complexes, t.cores, t.threads), (2, 1, 2, 2));
        assert_eq!(t.pairs(), [(0, [0, 4]), (1, [0, 1]), (3, [0, 2])]);
        assert_eq!(t.neighbours(), [0, 1, 4, 5]);
        assert!(
            t.lines()
                .iter()
                .all(|l| l.source == "/sys/devices/system/cpu")
        );
    }

    #[test]
    fn parts_that_are_not_alike_are_said() {
        let t = Topology::of(&[[0, 0, 0], [0, 0, 0], [0, 0, 1]], vec![0, 1, 2]);
        assert_eq!(t.contexts(), 2);
        assert!(
            t.lines()[0]
                .source
                .ends_with("3 CPUs, which are not alike, as 2")
        );
    }
}
