// SPDX-License-Identifier: MIT
//! A profile as pprof reads it: the messages of pprof's profile.proto that are used, with its field numbers, gzipped.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use flexguard_launch::failure::{Context, Result};
use prost::Message;

use super::record::Place;
use super::samples::{Samples, Stack};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    /// All texts; other messages name them by their place here. The first is empty.
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    /// pprof is not to look for symbols itself.
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    /// Where calls were inlined, several, innermost first.
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Things that get numbers, each another one.
#[derive(Default)]
struct Numbers<T>(HashMap<T, u64>);

impl<T: Eq + Hash> Numbers<T> {
    /// That of `thing`, from 1 on; true: it is new.
    fn of(&mut self, thing: T) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(thing).or_insert(next);
        (number, number == next)
    }
}

/// Its mapping, its address, and the functions that are there, the innermost first, with their lines.
type Address = (u64, u64, Vec<(u64, i64)>);

/// A profile that is being put together.
#[derive(Default)]
struct Writer {
    profile: Profile,
    texts: Numbers<String>,
    mappings: Numbers<String>,
    functions: Numbers<(String, String)>,
    locations: Numbers<Address>,
}

/// The file, gzipped.
pub fn pprof(samples: &Samples) -> Result<Vec<u8>> {
    let mut writer = Writer::default();
    writer.profile.string_table.push(String::new());
    for column in samples.columns {
        let [r#type, unit] = [column.name, column.unit].map(|text| writer.text(text));
        writer.profile.sample_type.push(ValueType { r#type, unit });
        if column.name == super::samples::WAIT.name {
            writer.profile.default_sample_type = r#type;
        }
    }
    for stack in &samples.stacks {
        writer.add(stack);
    }
    let comment = writer.text(&samples.comment);
    writer.profile.comment.push(comment);
    writer.profile.duration_nanos = number(super::samples::nanoseconds(samples.seconds));
    let doing = "cannot write a profile for pprof";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&writer.profile.encode_to_vec())
        .context(doing)?;
    gzip.finish().context(doing)
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Writer {
    fn text(&mut self, text: &str) -> i64 {
        if text.is_empty() {
            return 0;
        }
        let (number, new) = self.texts.of(text.to_owned());
        if new {
            self.profile.string_table.push(text.to_owned());
        }
        number as i64
    }

    /// The lock is the innermost place, and a label (`pprof -tagfocus`).
    fn add(&mut self, stack: &Stack) {
        let lock = self.function(&stack.lock, "");
        let mut location_id = vec![self.location(0, 0, vec![(lock, 0)])];
        let same = |a: &Place, b: &Place| a.frame.address == b.frame.address;
        for places in stack.places.chunk_by(same) {
            let lines = places.iter().map(|place| {
                let file = place.frame.file.as_deref().unwrap_or_default();
                let line = place.frame.line.map_or(0, i64::from);
                (self.function(&place.name(), file), line)
            });
            let lines: Vec<(u64, i64)> = lines.collect();
            let mapping = places[0].module.as_deref().map_or(0, |m| self.mapping(m));
            location_id.push(self.location(mapping, places[0].in_module, lines));
        }
        let [lock, process, pid] = ["lock", "process", "pid"].map(|key| self.text(key));
        let label = |key, str, num| Label { key, str, num };
        let label = vec![
            label(lock, self.text(&stack.lock), 0),
            label(process, self.text(&stack.process), 0),
            label(pid, 0, i64::from(stack.pid)),
        ];
        self.profile.sample.push(Sample {
            location_id,
            value: stack.numbers.iter().copied().map(number).collect(),
            label,
        });
    }

    fn mapping(&mut self, file: &str) -> u64 {
        let (id, new) = self.mappings.of(file.to_owned());
        if new {
            let filename = self.text(file);
            self.profile.mapping.push(Mapping {
                id,
                filename,
                has_functions: true,
            });
        }
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (id, new) = self.functions.of((name.to_owned(), file.to_owned()));
        if new {
            let [name, filename] = [name, file].map(|text| self.text(text));
            self.profile.function.push(Function {
                id,
                name,
                system_name: name,
                filename,
            });
        }
        id
    }

    fn location(&mut self, mapping_id: u64, address: u64, lines: Vec<(u64, i64)>) -> u64 {
        let (id, new) = self.locations.of((mapping_id, address, lines.clone()));
        if new {
            let line = |(function_id, line)| Line { function_id, line };
            self.profile.location.push(Location {
                id,
                mapping_id,
                address,
                line: lines.into_iter().map(line).collect(),
            });
        }
        id
    }
}
