// SPDX-License-Identifier: MIT
//! 64-bit little-endian ELF files: segments, sections, and where a loaded byte lies. What a file claims is not trusted.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

pub fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut number = [0; 8];
    number[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(number))
}

/// A section of a 64-bit little-endian ELF file.
pub struct Section<'a> {
    pub name: &'a [u8],
    pub kind: u64,
    pub flags: u64,
    pub address: u64,
    pub link: u64,
    pub bytes: &'a [u8],
}

/// An entry of its program headers.
pub struct Segment {
    pub kind: u64,
    pub offset: u64,
    pub address: u64,
    /// In the file.
    pub size: u64,
}

/// Of a segment that is loaded.
pub const LOAD: u64 = 1;
/// The begin of such a file.
const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
/// No section that anybody asks for has a longer name.
const LONGEST_NAME: usize = 64;
const NOBITS: u64 = 8;
/// No larger file is read.
pub const MOST_BYTES: u64 = 2 << 30;

/// Such a file; None: it is none. A process may have mapped anything: /dev/zero, which has no end, a file that has become a
/// FIFO, the memory that it shares with its children.
pub fn open(path: &str) -> Option<File> {
    // To open a device can have an effect. This opens nothing, and what it names is still the same file below.
    let mut options = OpenOptions::new();
    let named = options.read(true).custom_flags(libc::O_PATH).open(path);
    let named = named.ok()?;
    let about = named.metadata().ok()?;
    if !about.is_file() || about.len() > MOST_BYTES {
        return None;
    }
    let file = File::open(format!("/proc/self/fd/{}", named.as_raw_fd())).ok()?;
    let mut begin = [0; MAGIC.len()];
    file.read_exact_at(&mut begin, 0).ok()?;
    (begin == MAGIC).then_some(file)
}

/// Its bytes.
pub fn read(path: &str) -> Option<Vec<u8>> {
    Reader::default().read(path)
}

/// Reads files that are kept: MOST_BYTES of all of them together. A process may have mapped many that are large and empty.
pub struct Reader(u64);

impl Default for Reader {
    fn default() -> Self {
        Self(MOST_BYTES)
    }
}

impl Reader {
    pub fn read(&mut self, path: &str) -> Option<Vec<u8>> {
        let file = open(path)?;
        let length = file.metadata().ok()?.len();
        if length > self.0 {
            return None;
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.take(self.0).read_to_end(&mut bytes).ok()?;
        self.0 -= bytes.len() as u64;
        Some(bytes)
    }
}

pub fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let table = number::<8>(bytes, 0x28)? as usize;
    let [size, count, names] = [0x3a, 0x3c, 0x3e].map(|at| number::<2>(bytes, at));
    let header = |i: usize| table.checked_add(i.checked_mul(size? as usize)?);
    let part = |at: usize| {
        let field = |offset| at.checked_add(offset);
        let (from, size) = (
            number::<8>(bytes, field(0x18)?)?,
            number::<8>(bytes, field(0x20)?)?,
        );
        match number::<4>(bytes, field(4)?)? {
            NOBITS => Some(&[][..]),
            _ => bytes.get(from as usize..from.checked_add(size)? as usize),
        }
    };
    let names = part(header(names? as usize)?)?;
    let section = |i: usize| {
        let at = header(i)?;
        Some(Section {
            name: text_at(names, number::<4>(bytes, at)? as usize, LONGEST_NAME)?,
            kind: number::<4>(bytes, at + 4)?,
            flags: number::<8>(bytes, at + 8)?,
            address: number::<8>(bytes, at + 0x10)?,
            link: number::<4>(bytes, at + 0x28)?,
            bytes: part(at).unwrap_or_default(),
        })
    };
    (0..count? as usize).map(section).collect()
}

/// The text that begins there and ends with a zero. Of a longer one there are `most` bytes: in a damaged file many may be
/// the same long one.
pub fn text_at(bytes: &[u8], at: usize, most: usize) -> Option<&[u8]> {
    let text = bytes.get(at..)?;
    let text = &text[..text.len().min(most)];
    text.split(|b| *b == 0).next()
}

/// `read` gives that many bytes of the file from an offset on.
pub fn segments(read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Option<Vec<Segment>> {
    let header = read(0, 64)?;
    if !header.starts_with(&MAGIC) {
        return None;
    }
    let [size, count] = [0x36, 0x38].map(|at| number::<2>(&header, at));
    let (size, count) = (size?, count?);
    let table = read(number::<8>(&header, 0x20)?, size * count)?;
    let segment = |i: u64| {
        let entry = table.get((i * size) as usize..)?;
        Some(Segment {
            kind: number::<4>(entry, 0)?,
            offset: number::<8>(entry, 0x08)?,
            address: number::<8>(entry, 0x10)?,
            size: number::<8>(entry, 0x20)?,
        })
    };
    (0..count).map(segment).collect()
}

/// What is at `offset` of the file has this address, as the file counts.
pub fn file_address(bytes: &[u8], offset: u64) -> Option<u64> {
    let part = |at: u64, length| bytes.get(at as usize..at.checked_add(length)? as usize);
    let segments = segments(|at, length| Some(part(at, length)?.to_vec()))?;
    segments.iter().find_map(|segment| {
        // A mapping begins with the page.
        let before = segment.offset & 0xfff;
        let inside = offset.checked_sub(segment.offset - before)?;
        let is_in = segment.kind == LOAD && inside < segment.size.checked_add(before)?;
        is_in.then(|| segment.address.checked_sub(before)?.checked_add(inside))?
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_fifo_or_a_text_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.unwrap().success());
        fs::write(path("text"), "no library").unwrap();
        for name in ["fifo", "text", "none"] {
            assert_eq!(read(&path(name)), None);
        }
        assert_eq!(read("/dev/zero"), None);
    }

    #[test]
    fn files_are_bounded_together() {
        let length = read("/proc/self/exe").unwrap().len() as u64;
        let mut reader = Reader(2 * length + 1);
        for fits in [true, true, false] {
            assert_eq!(reader.read("/proc/self/exe").is_some(), fits);
        }
    }
}
