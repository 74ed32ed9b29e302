// SPDX-License-Identifier: MIT
//! The oracle's kernel half, loaded beside the monitor under test and listening to its victim.

use std::cell::RefCell;
use std::fs;
use std::os::fd::AsFd;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, RingBuffer,
    RingBufferBuilder,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::judge::Judge;
use crate::records::{ORACLE_NODES, oracle_config, oracle_counts, oracle_event, oracle_worker};
use crate::truth::Layout;
use crate::victim::Victim;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/oracle.bpf.o"));

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
pub struct Witness {
    // Before `object`: fields are dropped in this order.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    object: Object,
}

impl Witness {
    /// Must be called after the monitor has been attached, and before the victim goes.
    pub fn attach(
        monitor: &MonitorMaps,
        victim: &Victim,
        layout: Layout,
        judge: &Rc<RefCell<Judge>>,
    ) -> Result<Witness> {
        let mut open = ObjectBuilder::default()
            .name("oracle")?
            .open_memory(OBJECT)?;
        set_up(&mut open, monitor, victim, layout)?;
        let object = open.load().context("loading the oracle")?;
        let workers = map(&object, "workers")?;
        for (index, worker) in (0..).zip(&victim.workers) {
            let value = oracle_worker {
                block: worker.block,
                index,
                pad: 0,
            };
            workers.update(&worker.tid.to_ne_bytes(), value.as_bytes(), MapFlags::ANY)?;
        }
        let links = object.progs_mut().map(|program| program.attach());
        let links = links.collect::<Result<_, _>>();
        let links = links.context("attaching the oracle")?;
        let mut builder = RingBufferBuilder::new();
        let judge = judge.clone();
        let events = map(&object, "events")?;
        builder.add(&events, move |bytes| {
            match oracle_event::read_from_bytes(bytes) {
                Ok(event) => judge.borrow_mut().hear(&event),
                Err(_) => return libc::EPROTO,
            }
            0
        })?;
        Ok(Witness {
            _links: links,
            ring: builder.build()?,
            object,
        })
    }

    /// Passes what has happened since on to the judge.
    pub fn listen(&self) -> Result<()> {
        self.ring.consume().context("reading the oracle's events")
    }

    /// Fails if the reader was too slow for what happened.
    pub fn check_complete(&self) -> Result<()> {
        let seen = map(&self.object, "oracle.bss")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let seen = seen.and_then(|bytes| oracle_counts::read_from_bytes(&bytes).ok());
        let lost = seen.context("the object has variables")?.lost;
        ensure!(
            lost == 0,
            "{lost} events were lost: the reader was too slow"
        );
        Ok(())
    }
}

/// What has to be known before the object is loaded: the monitor's maps, and where the victim has its locks.
fn set_up(
    open: &mut OpenObject,
    monitor: &MonitorMaps,
    victim: &Victim,
    layout: Layout,
) -> Result<()> {
    let mut found = 0;
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("threads") => map.reuse_fd(monitor.threads.as_fd())?,
            Some("shared") => map.reuse_fd(monitor.shared.as_fd())?,
            Some("oracle.rodata") => {
                let value = map.initial_value_mut();
                let config = value.and_then(|bytes| oracle_config::mut_from_bytes(bytes).ok());
                *config.context("the object has one constant")? = oracle_config {
                    tgid: victim.pid,
                    nodes: layout.tail.map_or(0, |_| ORACLE_NODES),
                    lock_addresses: victim.locks,
                    nodes_address: victim.nodes,
                };
            }
            _ => continue,
        }
        found += 1;
    }
    ensure!(found == 3, "the oracle lacks one of its maps");
    Ok(())
}

fn map(object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.with_context(|| format!("the oracle has no map {name:?}"))?;
    Ok(MapHandle::try_from(&found)?)
}
