// SPDX-License-Identifier: MIT
//! What a client may say, judged byte by byte and without side effects: the whole trust boundary is in this file.

use std::mem::size_of;
use std::ops::RangeInclusive;

use flexguard_abi::*;
use nix::errno::Errno;
use zerocopy::{FromBytes, IntoBytes};

/// A checked registration of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub block_offset: i64,
    /// FG_WANT_*
    pub flags: u64,
    pub windows: Vec<fg_window>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Register(Registration),
    /// Asks for the statistics.
    Status,
    /// Asks for them, and for who is registered and counted.
    List,
}

/// What is known after the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    Incomplete,
    /// The end, before anything was said: a client that only looks whether the monitor lives.
    Nothing,
    Complete(Message),
    Invalid(Errno),
}

pub const STATUS_REQUEST_BYTES: usize = size_of::<fg_status_request>();

const HEADER_BYTES: usize = size_of::<fg_registration>();
const WINDOW_BYTES: usize = size_of::<fg_window>();
/// No valid message is longer.
pub const MAX_BYTES: usize = HEADER_BYTES + FG_MAX_WINDOWS as usize * WINDOW_BYTES;

/// All that may be asked for.
const FLAGS: u64 = FG_WANT_SLICE_FORECAST as u64;
/// One past the highest user address of any x86-64 kernel (five-level page tables), and of any arm64 kernel (52 bits).
const USER_ADDRESS_END: u64 = 1 << 56;
/// Static TLS lies below the thread pointer on x86-64, and above it, behind two words, on arm64; no program has this
/// much of it.
const BELOW: RangeInclusive<i64> = -(1 << 31)..=-(size_of::<fg_thread_block>() as i64);
const ABOVE: RangeInclusive<i64> = 16..=(1 << 31) - 8;
/// Of a program of this machine's architecture, and of one that an emulator runs for the other.
const BLOCK_OFFSETS: [RangeInclusive<i64>; 2] = if cfg!(target_arch = "aarch64") {
    [ABOVE, BELOW]
} else {
    [BELOW, ABOVE]
};

/// Judges the bytes received so far. A message is refused as soon as it cannot become a valid one.
pub fn parse(bytes: &[u8]) -> Parsed {
    match try_parse(bytes) {
        Ok(None) => Parsed::Incomplete,
        Ok(Some(message)) => Parsed::Complete(message),
        Err(errno) => Parsed::Invalid(errno),
    }
}

fn try_parse(bytes: &[u8]) -> Result<Option<Message>, Errno> {
    let Some(magic) = word(bytes, 0) else {
        return Ok(None);
    };
    if magic != FG_ABI_MAGIC && magic != FG_STATUS_MAGIC {
        return Err(Errno::EPROTO);
    }
    let Some(version) = word(bytes, 1) else {
        return Ok(None);
    };
    if version != FG_ABI_VERSION {
        return Err(Errno::EPROTONOSUPPORT);
    }
    if magic == FG_STATUS_MAGIC {
        parse_status(bytes)
    } else {
        parse_registration(bytes)
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(index * 4..)?.first_chunk()?))
}

fn parse_status(bytes: &[u8]) -> Result<Option<Message>, Errno> {
    if bytes.len() < STATUS_REQUEST_BYTES {
        return Ok(None);
    }
    match bytes {
        _ if bytes == status_request(false) => Ok(Some(Message::Status)),
        _ if bytes == status_request(true) => Ok(Some(Message::List)),
        _ => Err(Errno::EINVAL),
    }
}

/// The valid status requests.
pub fn status_request(list: bool) -> [u8; STATUS_REQUEST_BYTES] {
    let request = fg_status_request {
        magic: FG_STATUS_MAGIC,
        version: FG_ABI_VERSION,
        size: STATUS_REQUEST_BYTES as u32,
        what: if list {
            FG_STATUS_LIST
        } else {
            FG_STATUS_TOTALS
        },
    };
    request
        .as_bytes()
        .try_into()
        .expect("it has as many bytes as its type")
}

fn parse_registration(bytes: &[u8]) -> Result<Option<Message>, Errno> {
    let Some(head) = bytes.get(..HEADER_BYTES) else {
        return Ok(None);
    };
    let head = fg_registration::read_from_bytes(head).map_err(|_| Errno::EINVAL)?;
    if head.windows > FG_MAX_WINDOWS {
        return Err(Errno::ENOSPC);
    }
    let size = HEADER_BYTES + head.windows as usize * WINDOW_BYTES;
    if head.size as usize != size || head.flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    check_block_offset(head.block_offset)?;
    if bytes.len() < size {
        return Ok(None);
    }
    if bytes.len() > size {
        return Err(Errno::EINVAL);
    }
    let windows = bytes[HEADER_BYTES..]
        .chunks_exact(WINDOW_BYTES)
        .map(parse_window);
    let windows = windows.collect::<Result<_, _>>()?;
    Ok(Some(Message::Register(Registration {
        block_offset: head.block_offset,
        flags: head.flags,
        windows,
    })))
}

fn check_block_offset(offset: i64) -> Result<(), Errno> {
    let [ours, emulated] = &BLOCK_OFFSETS;
    match offset {
        _ if offset % 8 != 0 => Err(Errno::EINVAL),
        _ if ours.contains(&offset) => Ok(()),
        _ if emulated.contains(&offset) => Err(Errno::ENOEXEC),
        _ => Err(Errno::EINVAL),
    }
}

fn parse_window(bytes: &[u8]) -> Result<fg_window, Errno> {
    let window = fg_window::read_from_bytes(bytes).map_err(|_| Errno::EINVAL)?;
    let valid = window.begin > 0
        && window.begin < window.end
        && window.end < USER_ADDRESS_END
        && window.end - window.begin <= FG_MAX_WINDOW_BYTES as u64
        && window.reg < FG_REG_COUNT
        && window.pad == 0;
    if valid {
        Ok(window)
    } else {
        Err(Errno::EINVAL)
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
