// SPDX-License-Identifier: MIT
//! Call stacks of another process, from registers and a copy of the stack, by the call frame information of its files: libc
//! is compiled without frame pointers. x86-64 only: elsewhere a stack has its innermost place alone.

use std::collections::HashMap;

use flexguard_launch::elf::{self, Section, sections};
use flexguard_monitor::{Registers, Wait};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};

use super::maps::Maps;

/// As DWARF numbers them.
const BP: Register = Register(6);
const SP: Register = Register(7);
const RETURN: Register = Register(16);
/// Deeper is no stack that a reader wants.
const MOST: usize = 64;

/// How to get from a function to its caller.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Where the caller's stack pointer was: an offset to this register.
    from: Register,
    offset: i64,
    /// Where the return address and the caller's frame pointer are, from there; None: it has been left alone.
    back: i64,
    bp: Option<i64>,
}

/// Remembers the files that it has read, and the steps.
pub struct Unwinder {
    maps: Maps,
    reader: elf::Reader,
    files: HashMap<String, Option<Vec<u8>>>,
    steps: HashMap<u64, Option<Step>>,
}

impl Unwinder {
    pub fn new(pid: u32) -> Unwinder {
        Unwinder {
            maps: Maps::of(pid),
            reader: elf::Reader::default(),
            files: HashMap::new(),
            steps: HashMap::new(),
        }
    }

    /// Addresses, innermost first; all but the first are return addresses.
    pub fn stack(&mut self, wait: &Wait) -> Vec<u64> {
        let mut at = wait.registers;
        let mut stack = vec![at.ip];
        if !cfg!(target_arch = "x86_64") {
            return stack;
        }
        while stack.len() < MOST {
            // A return address may be behind the function's last instruction.
            let place = at.ip - u64::from(stack.len() > 1);
            let Some(step) = self.step(place) else { break };
            let Some(caller) = step.take(at, wait) else {
                break;
            };
            if caller.ip == 0 || caller.sp <= at.sp || !self.maps.has(caller.ip) {
                break;
            }
            stack.push(caller.ip);
            at = caller;
        }
        stack
    }

    /// The files in which these addresses, and those of variables, are.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    fn step(&mut self, place: u64) -> Option<Step> {
        if let Some(step) = self.steps.get(&place) {
            return *step;
        }
        let step = self.find_step(place);
        self.steps.insert(place, step);
        step
    }

    fn find_step(&mut self, place: u64) -> Option<Step> {
        // A file may have been loaded since.
        if !self.maps.has(place) {
            self.maps = Maps::of(self.maps.pid());
        }
        let (path, base) = self.maps.base(place)?;
        let file = self.files.entry(path);
        let bytes = file.or_insert_with_key(|path| self.reader.read(path));
        let bytes = bytes.as_ref()?;
        step_in(bytes, place.checked_sub(base)?)
    }
}

fn step_in(bytes: &[u8], address: u64) -> Option<Step> {
    let sections = sections(bytes)?;
    let named = |name: &[u8]| sections.iter().find(|s| s.name == name);
    let at = |section: Option<&Section>| section.map_or(0, |s| s.address);
    let (frames, index) = (named(b".eh_frame")?, named(b".eh_frame_hdr")?);
    let bases = BaseAddresses::default()
        .set_eh_frame(frames.address)
        .set_eh_frame_hdr(index.address)
        .set_text(at(named(b".text")))
        .set_got(at(named(b".got")));
    let frames = EhFrame::from(EndianSlice::new(frames.bytes, LittleEndian));
    let index = EhFrameHdr::from(EndianSlice::new(index.bytes, LittleEndian));
    let index = index.parse(&bases, 8).ok()?;
    let mut context = UnwindContext::new();
    let row = index
        .table()?
        .unwind_info_for_address(
            &frames,
            &bases,
            &mut context,
            address,
            |section, bases, at| section.cie_from_offset(bases, at),
        )
        .ok()?;
    let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None; // an expression: the linker's own stubs have one
    };
    let Some(RegisterRule::Offset(back)) = row.register(RETURN) else {
        return None; // the outermost function has no caller
    };
    let bp = match row.register(BP) {
        Some(RegisterRule::Offset(bp)) => Some(bp),
        _ => None,
    };
    Some(Step {
        from: register,
        offset,
        back,
        bp,
    })
}

impl Step {
    fn take(&self, at: Registers, wait: &Wait) -> Option<Registers> {
        let from = match self.from {
            SP => at.sp,
            BP => at.bp,
            _ => return None,
        };
        let sp = from.checked_add_signed(self.offset)?;
        let word = |offset: i64| {
            let place = sp
                .checked_add_signed(offset)?
                .checked_sub(wait.registers.sp)?;
            let place = usize::try_from(place).ok()?;
            let bytes = wait.stack.get(place..place.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(Registers {
            ip: word(self.back)?,
            sp,
            bp: match self.bp {
                Some(offset) => word(offset)?,
                None => at.bp,
            },
        })
    }
}
