// SPDX-License-Identifier: MIT
//! The record that both halves share, generated from `bpf/oracle.h`.

#![allow(non_camel_case_types)]

include!(concat!(env!("OUT_DIR"), "/records.rs"));
