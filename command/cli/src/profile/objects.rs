// SPDX-License-Identifier: MIT
//! The names of locks in static memory: the variable, by the file's symbols, and the member in it, where the file has debug
//! information.

use std::cell::RefCell;
use std::collections::HashMap;

use flexguard_launch::elf::{self, number, sections, text_at};
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Operation, Unit,
    UnitOffset,
};

use crate::symbols::demangled;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

const SYMTAB: u64 = 2;
const DYNSYM: u64 = 11;
const COMPRESSED: u64 = 0x800;
/// STT_OBJECT and STT_FUNC.
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
const SYMBOL: usize = 24;
/// Of a longer name this is shown.
const LONGEST_NAME: usize = 1 << 16;

/// The bytes of the largest object of pthreads, pthread_rwlock_t.
const LARGEST: u64 = 56;

/// A member of a member, and so on: deeper is nothing that a reader wants.
const DEEPEST: usize = 12;

/// Remembers the files that it has read.
#[derive(Default)]
pub struct Objects {
    files: RefCell<HashMap<String, Option<File>>>,
    reader: RefCell<elf::Reader>,
}

struct File {
    bytes: Vec<u8>,
    /// Sorted by address.
    variables: Vec<Variable>,
    functions: Vec<Variable>,
}

/// Or a function.
struct Variable {
    address: u64,
    size: u64,
    /// Where in the file its name begins.
    name: usize,
}

impl Variable {
    fn name(&self, file: &[u8]) -> String {
        let name = text_at(file, self.name, LONGEST_NAME).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

impl Objects {
    /// What is at `address` of the file, as the file counts addresses: `name`, `name.member`, `name+0x8`.
    pub fn name(&self, path: &str, address: u64) -> Option<String> {
        let mut files = self.files.borrow_mut();
        let file = files
            .entry(path.to_owned())
            .or_insert_with(|| File::read(path, &mut self.reader.borrow_mut()));
        file.as_ref()?.name(address)
    }

    /// The function at `address`. It also knows those that a stripped library exports.
    pub fn function(&self, path: &str, address: u64) -> Option<String> {
        let mut files = self.files.borrow_mut();
        let file = files
            .entry(path.to_owned())
            .or_insert_with(|| File::read(path, &mut self.reader.borrow_mut()));
        let file = file.as_ref()?;
        let (found, _) = at(&file.functions, address)?;
        Some(demangled(&found.name(&file.bytes)))
    }
}

/// What is at the address, and how far in it.
fn at(sorted: &[Variable], address: u64) -> Option<(&Variable, u64)> {
    let behind = sorted.partition_point(|v| v.address <= address);
    let found = sorted[..behind].last()?;
    let offset = address - found.address;
    (offset < found.size).then_some((found, offset))
}

impl File {
    fn read(path: &str, reader: &mut elf::Reader) -> Option<File> {
        let bytes = reader.read(path)?;
        let variables = symbols(&bytes, OBJECT)?;
        let functions = symbols(&bytes, FUNCTION)?;
        Some(File {
            bytes,
            variables,
            functions,
        })
    }

    fn name(&self, address: u64) -> Option<String> {
        let (found, offset) = at(&self.variables, address)?;
        let name = demangled(&found.name(&self.bytes));
        let member = member(&self.bytes, found.address, offset);
        Some(match member {
            Some(member) => name + &member,
            // Without debug information: a variable of this size can be no more than the object itself.
            None if offset == 0 || found.size <= LARGEST => name,
            None => format!("{name}+{offset:#x}"),
        })
    }
}

fn symbols(bytes: &[u8], kind: u8) -> Option<Vec<Variable>> {
    let sections = sections(bytes)?;
    let mut variables = Vec::new();
    // A file has one of each kind; a damaged one may have the same many times.
    let tables = [SYMTAB, DYNSYM].map(|kind| sections.iter().find(|s| s.kind == kind));
    for table in tables.into_iter().flatten() {
        let names = sections.get(table.link as usize)?.bytes;
        let names = (names.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize);
        for symbol in table.bytes.chunks_exact(SYMBOL) {
            let variable = Variable {
                address: number::<8>(symbol, 8)?,
                size: number::<8>(symbol, 16)?,
                name: names
                    .unwrap_or(bytes.len())
                    .saturating_add(number::<4>(symbol, 0)? as usize),
            };
            if symbol[4] & 15 != kind || variable.size == 0 {
                continue;
            }
            variables.push(variable);
        }
    }
    // Where one has several names, the last that is not the C library's own is taken.
    let order = |v: &Variable| (v.address, bytes.get(v.name) != Some(&b'_'));
    variables.sort_by_key(order);
    Some(variables)
}

/// `.member[3].lock`: what is at `offset` in the variable at `address`. None: the file does not say.
fn member(bytes: &[u8], address: u64, offset: u64) -> Option<String> {
    let sections = sections(bytes)?;
    let dwarf = Dwarf::load(|id| {
        let found = sections.iter().find(|s| s.name == id.name().as_bytes());
        let usable = found.filter(|s| s.flags & COMPRESSED == 0);
        Ok::<_, gimli::Error>(Slice::new(usable.map_or(&[], |s| s.bytes), LittleEndian))
    });
    let dwarf = dwarf.ok()?;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        if let Some(of) = type_of_variable(&dwarf, &unit, address) {
            return path(&dwarf, &unit, of, offset).filter(|path| !path.is_empty());
        }
    }
    None
}

fn type_of_variable(dwarf: &Dwarf<Slice>, unit: &Unit<Slice>, address: u64) -> Option<UnitOffset> {
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() == gimli::DW_TAG_variable && place(dwarf, unit, entry) == Some(address) {
            return type_of(unit, entry);
        }
    }
    None
}

fn place(dwarf: &Dwarf<Slice>, unit: &Unit<Slice>, entry: &Entry) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = entry.attr_value(gimli::DW_AT_location)? else {
        return None;
    };
    match expression.operations(unit.encoding()).next().ok()?? {
        Operation::Address { address } => Some(address),
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok(),
        _ => None,
    }
}

/// Also of a definition whose declaration says it.
fn type_of(unit: &Unit<Slice>, entry: &Entry) -> Option<UnitOffset> {
    let reference = |entry: &Entry, name| match entry.attr_value(name) {
        Some(AttributeValue::UnitRef(offset)) => Some(offset),
        _ => None,
    };
    reference(entry, gimli::DW_AT_type).or_else(|| {
        let declaration = reference(entry, gimli::DW_AT_specification)?;
        reference(&unit.entry(declaration).ok()?, gimli::DW_AT_type)
    })
}

fn name_of(dwarf: &Dwarf<Slice>, unit: &Unit<Slice>, entry: &Entry) -> Option<String> {
    let name = entry.attr_value(gimli::DW_AT_name)?;
    let name = dwarf.attr_string(unit, name).ok()?;
    Some(name.to_string_lossy().into_owned())
}

fn path(
    dwarf: &Dwarf<Slice>,
    unit: &Unit<Slice>,
    mut of: UnitOffset,
    mut offset: u64,
) -> Option<String> {
    let mut path = String::new();
    for _ in 0..DEEPEST {
        let entry = unit.entry(of).ok()?;
        let name = name_of(dwarf, unit, &entry).unwrap_or_default();
        if is_lock(&name) {
            return Some(path); // also of a word inside it
        }
        of = match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let (member, at, of) = member_at(dwarf, unit, of, offset)?;
                offset -= at;
                if let Some(member) = member {
                    path += ".";
                    path += &member;
                }
                of
            }
            gimli::DW_TAG_array_type => {
                let of = type_of(unit, &entry)?;
                let size = size_of(unit, of)?;
                path += &format!("[{}]", offset.checked_div(size)?);
                offset %= size;
                of
            }
            _ => type_of(unit, &entry)?,
        };
    }
    None
}

/// The types in which nothing is named any more.
fn is_lock(name: &str) -> bool {
    let standard = [
        "pthread_mutex_t",
        "pthread_cond_t",
        "pthread_rwlock_t",
        "pthread_barrier_t",
        "sem_t",
        "mutex",
        "recursive_mutex",
        "timed_mutex",
        "recursive_timed_mutex",
        "shared_mutex",
        "shared_timed_mutex",
        "condition_variable",
        "condition_variable_any",
    ];
    standard.contains(&name)
}

/// The member, or the base, that holds the offset: its name, where it begins, its type.
fn member_at(
    dwarf: &Dwarf<Slice>,
    unit: &Unit<Slice>,
    of: UnitOffset,
    offset: u64,
) -> Option<(Option<String>, u64, UnitOffset)> {
    let mut tree = unit.entries_tree(Some(of)).ok()?;
    let mut children = tree.root().ok()?.children();
    let mut found: Option<(Option<String>, u64, UnitOffset)> = None;
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        let is_base = entry.tag() == gimli::DW_TAG_inheritance;
        if entry.tag() != gimli::DW_TAG_member && !is_base {
            continue;
        }
        let at = entry.attr_value(gimli::DW_AT_data_member_location);
        let at = at.and_then(|at| at.udata_value()).unwrap_or(0);
        let Some(of) = type_of(unit, entry) else {
            continue;
        };
        if at <= offset && found.as_ref().is_none_or(|f| f.1 < at) {
            let name = name_of(dwarf, unit, entry).filter(|_| !is_base);
            found = Some((name, at, of));
        }
    }
    found
}

/// Of what has no size the type of the type says it. A damaged file may name one for itself.
fn size_of(unit: &Unit<Slice>, mut of: UnitOffset) -> Option<u64> {
    for _ in 0..DEEPEST {
        let entry = unit.entry(of).ok()?;
        let size = entry.attr_value(gimli::DW_AT_byte_size);
        if let Some(size) = size.and_then(|size| size.udata_value()) {
            return Some(size);
        }
        of = type_of(unit, &entry)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// A library of this source.
    fn library(name: &str, text: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let (source, object) = (dir.path().join(name), dir.path().join("o.so"));
        fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-g", "-shared", "-nostdlib", "-o"]);
        assert!(cc.arg(&object).arg(&source).status().unwrap().success());
        fs::read(object).unwrap()
    }

    fn address_of(name: &str, bytes: &[u8]) -> u64 {
        let variables = symbols(bytes, OBJECT).unwrap();
        let found = variables.iter().find(|v| v.name(bytes) == name);
        found.unwrap().address
    }

    /// Two variables: an array of a type that is named for itself, and a definition that is its own declaration.
    const CIRCLES: &str = "
        .data
        .globl array, own
        .type array, @object
        .size array, 64
        array: .zero 64
        .type own, @object
        .size own, 64
        own: .zero 64
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1, 0, 0 # compile unit with children
        .byte 2, 0x34, 0, 0x49, 0x13, 0x02, 0x18, 0, 0 # variable: type, location
        .byte 3, 0x01, 0, 0x49, 0x13, 0, 0 # array: type
        .byte 4, 0x16, 0, 0x49, 0x13, 0, 0 # name of a type: type
        .byte 5, 0x34, 0, 0x47, 0x13, 0x02, 0x18, 0, 0 # variable: declaration, location
        .byte 0
        .section .debug_info,\"\",@progbits
        unit: .long end - begin
        begin: .2byte 4
        .long 0
        .byte 8, 1
        first: .byte 2
        .long typed - unit
        .byte 9, 3
        .8byte array
        typed: .byte 3
        .long name - unit
        name: .byte 4
        .long name - unit
        second: .byte 5
        .long second - unit
        .byte 9, 3
        .8byte own
        .byte 0
        end:
        .section .note.GNU-stack,\"\",@progbits
    ";

    #[test]
    fn what_is_named_for_itself_has_no_member() {
        let bytes = library("o.s", CIRCLES);
        for name in ["array", "own"] {
            assert_eq!(member(&bytes, address_of(name, &bytes), 8), None);
        }
    }

    /// Of 65,000 sections each is the same table of symbols, which all have the same long name.
    #[test]
    fn many_tables_of_long_names_take_no_longer_than_one() {
        let (sections, table, names) = (65_000, 1_usize << 20, 1_usize << 20);
        let mut file = vec![0; 64 + table + names + sections * 64];
        let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            file[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let (first, headers) = (64, 64 + table + names);
        put(&mut file, 0, b"\x7fELF\x02\x01");
        put(&mut file, 0x28, &(headers as u64).to_le_bytes());
        put(&mut file, 0x3a, &64_u16.to_le_bytes());
        put(&mut file, 0x3c, &(sections as u16).to_le_bytes());
        put(&mut file, 0x3e, &0_u16.to_le_bytes());
        for at in (first..first + table - SYMBOL).step_by(SYMBOL) {
            file[at + 4] = OBJECT;
            put(&mut file, at + 8, &(at as u64).to_le_bytes());
            put(&mut file, at + 16, &8_u64.to_le_bytes());
        }
        file[first + table..headers - 1].fill(b'a');
        for i in 0..sections {
            let at = headers + i * 64;
            let (kind, from, size) = match i {
                0 => (3, first + table, names),
                _ => (SYMTAB as u32, first, table),
            };
            put(&mut file, at + 4, &kind.to_le_bytes());
            put(&mut file, at + 0x18, &(from as u64).to_le_bytes());
            put(&mut file, at + 0x20, &(size as u64).to_le_bytes());
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.so");
        fs::write(&path, file).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let name = Objects::default().name(path.to_str().unwrap(), first as u64);
            let _ = send.send(name);
        });
        let name = receive.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(
            name.expect("it takes a minute").unwrap().len(),
            LONGEST_NAME
        );
    }

    #[test]
    fn fuzz_elf_and_dwarf() {
        let text = "typedef struct { long words[5]; } pthread_mutex_t;\n\
                    struct part { int a; pthread_mutex_t in[3]; } pool; int one[4] = {1};\n";
        let bytes = library("o.c", text);
        let pool = address_of("pool", &bytes);
        assert!(member(&bytes, pool, 48).is_some());
        flexguard_fuzz::fuzz("elf-and-dwarf", &[&bytes], |input| {
            for variable in symbols(input, OBJECT).unwrap_or_default().iter().take(16) {
                let _ = member(input, variable.address, variable.size / 2);
            }
            let _ = member(input, pool, 48);
        });
    }
}
