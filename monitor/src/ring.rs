// SPDX-License-Identifier: MIT
//! What the objects beside the monitor's have in common: the map `ring`, by which they hand records over, and the map
//! `control`, with their settings and what they count.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Error;
use crate::kernel::{KEY_ZERO, bpf, map};

/// Records, read by a function that leaves out what it cannot read.
pub struct Ring<T> {
    ring: RingBuffer<'static>,
    read: Arc<Mutex<Vec<T>>>,
    doing: &'static str,
}

impl<T: Send + 'static> Ring<T> {
    /// `doing` is for errors.
    pub fn of(
        object: &Object,
        doing: &'static str,
        of: fn(&[u8]) -> Option<T>,
    ) -> Result<Self, Error> {
        let read = Arc::new(Mutex::new(Vec::new()));
        let all = read.clone();
        let add = move |bytes: &[u8]| {
            all.lock().expect("nobody panics with it").extend(of(bytes));
            0
        };
        let map = map(object, "ring")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, add).map_err(bpf(doing))?;
        let ring = builder.build().map_err(bpf(doing))?;
        Ok(Self { ring, read, doing })
    }

    /// The records that have come since the last call. Does not wait.
    pub fn take(&self) -> Result<Vec<T>, Error> {
        self.ring.consume().map_err(bpf(self.doing))?;
        let mut read = self.read.lock().expect("nobody panics with it");
        Ok(std::mem::take(&mut read))
    }
}

pub struct Control<C> {
    map: MapHandle,
    of: PhantomData<C>,
}

impl<C: FromBytes + IntoBytes + Immutable> Control<C> {
    /// With these settings. `doing` is for errors, here and below.
    pub fn set(object: &Object, doing: &'static str, settings: &C) -> Result<Self, Error> {
        let map = map(object, "control")?;
        map.update(&KEY_ZERO, settings.as_bytes(), MapFlags::ANY)
            .map_err(bpf(doing))?;
        Ok(Self {
            map,
            of: PhantomData,
        })
    }

    pub fn get(&self, doing: &'static str) -> Result<C, Error> {
        let value = self.map.lookup(&KEY_ZERO, MapFlags::ANY);
        let value = value.map_err(bpf(doing))?.unwrap_or_default();
        Ok(C::read_from_prefix(&value).map_or_else(|_| C::new_zeroed(), |(control, _)| control))
    }
}
