// SPDX-License-Identifier: MIT
//! The oracle's kernel half, loaded beside the monitor under test and listening to its victim.

use std::cell::RefCell;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject, RingBuffer, RingBufferBuilder};
use zerocopy::{FromBytes, IntoBytes};

use crate::judge::Judge;
use crate::records::{ORACLE_NODES, oracle_event, oracle_worker};
use crate::truth::Layout;
use crate::victim::Victim;

#[allow(clippy::all, clippy::undocumented_unsafe_blocks, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/oracle.skel.rs"));
}
use skeleton::{OracleSkel, OracleSkelBuilder};

/// The maps of the monitor in this process. It does not hand them out, but its descriptors can be found.
pub struct MonitorMaps {
    threads: MapHandle,
    shared: MapHandle,
}

impl MonitorMaps {
    pub fn find() -> Result<MonitorMaps> {
        let mut ids = Vec::new();
        for entry in fs::read_dir("/proc/self/fdinfo")? {
            // The directory's own descriptor is closed by the time it is read.
            let info = fs::read_to_string(entry?.path()).unwrap_or_default();
            let id = info.lines().find_map(|line| line.strip_prefix("map_id:"));
            ids.extend(id.map(|id| id.trim().parse::<u32>()).transpose()?);
        }
        let named = |name: &str| {
            let maps = ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok());
            maps.into_iter()
                .find(|map| map.name() == name)
                .with_context(|| format!("the monitor has no map {name:?}"))
        };
        Ok(MonitorMaps {
            threads: named("threads")?,
            shared: named("shared")?,
        })
    }
}

/// Attached: every switch of the victim's workers is heard by the judge when [`Witness::listen`] runs.
pub struct Witness<'a> {
    // Before `skel`: fields are dropped in this order.
    ring: RingBuffer<'a>,
    skel: OracleSkel<'a>,
}

impl<'a> Witness<'a> {
    /// Must be called after the monitor has been attached, and before the victim goes.
    pub fn attach(
        storage: &'a mut MaybeUninit<OpenObject>,
        monitor: &MonitorMaps,
        victim: &Victim,
        layout: Layout,
        judge: &Rc<RefCell<Judge>>,
    ) -> Result<Witness<'a>> {
        let mut open = OracleSkelBuilder::default().open(storage)?;
        open.maps.threads.reuse_fd(monitor.threads.as_fd())?;
        open.maps.shared.reuse_fd(monitor.shared.as_fd())?;
        let data = open.maps.rodata_data.as_deref_mut();
        let config = &mut data.context("the object has constants")?.config;
        config.tgid = victim.pid;
        config.nodes = layout.tail.map_or(0, |_| ORACLE_NODES);
        config.lock_addresses = victim.locks;
        config.nodes_address = victim.nodes;
        let mut skel = open.load().context("loading the oracle")?;
        for (index, worker) in (0..).zip(&victim.workers) {
            let value = oracle_worker {
                block: worker.block,
                index,
                pad: 0,
            };
            skel.maps
                .workers
                .update(&worker.tid.to_ne_bytes(), value.as_bytes(), MapFlags::ANY)?;
        }
        skel.attach().context("attaching the oracle")?;
        let mut builder = RingBufferBuilder::new();
        let judge = judge.clone();
        builder.add(&skel.maps.events, move |bytes| {
            match oracle_event::read_from_bytes(bytes) {
                Ok(event) => judge.borrow_mut().hear(&event),
                Err(_) => return libc::EPROTO,
            }
            0
        })?;
        let ring = builder.build()?;
        Ok(Witness { ring, skel })
    }

    /// Passes what has happened since on to the judge.
    pub fn listen(&self) -> Result<()> {
        self.ring.consume().context("reading the oracle's events")
    }

    /// Fails if the reader was too slow for what happened.
    pub fn check_complete(&self) -> Result<()> {
        let data = self.skel.maps.bss_data.as_deref();
        let lost = data.context("the object has variables")?.lost;
        ensure!(
            lost == 0,
            "{lost} events were lost: the reader was too slow"
        );
        Ok(())
    }
}
