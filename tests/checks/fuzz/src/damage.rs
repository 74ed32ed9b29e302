// SPDX-License-Identifier: MIT
//! How input is damaged.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) as usize % n.max(1)
    }
}

const NUMBERS: [u64; 10] = [
    0,
    1,
    7,
    0x7f,
    0x80,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];
const WORDS: [&str; 12] = [
    "0",
    "-1",
    "18446744073709551616",
    "1e400",
    "nan",
    "[",
    "]]",
    "\"",
    "\\u0000",
    "=",
    "\n",
    "[[[[[[[[",
];

pub fn damaged(kept: &[Vec<u8>], random: &mut Random, most: usize) -> Vec<u8> {
    let mut input = kept[random.below(kept.len())].clone();
    for _ in 0..=random.below(5) {
        once(&mut input, kept, random);
    }
    input.truncate(most);
    input
}

fn once(input: &mut Vec<u8>, kept: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let most = 1 << random.below(10);
    let end = (at + 1 + random.below(most)).min(input.len());
    match random.below(9) {
        0 => set(
            input,
            at,
            |byte, random| byte ^ 1 << random.below(8),
            random,
        ),
        1 => set(input, at, |_, random| random.below(256) as u8, random),
        2 => drop(input.drain(at.min(end)..end)),
        3 => {
            let copy = input[at.min(end)..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        4 => input.truncate(at),
        5 => {
            let other = &kept[random.below(kept.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        6 => {
            let word = WORDS[random.below(WORDS.len())].bytes();
            input.splice(
                at..end.max(at).min(at + random.below(8)).min(input.len()),
                word,
            );
        }
        7 => {
            let bytes = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let size = 1 << random.below(4);
            for (byte, new) in input.iter_mut().skip(at).zip(&bytes[..size]) {
                *byte = *new;
            }
        }
        _ => digits(input, at, random),
    }
}

fn set(input: &mut [u8], at: usize, new: fn(u8, &mut Random) -> u8, random: &mut Random) {
    if let Some(byte) = input.get_mut(at) {
        *byte = new(*byte, random);
    }
}

/// Another number in the place of the next one.
fn digits(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(begin) = input[at..].iter().position(is_digit).map(|n| at + n) else {
        return;
    };
    let length = input[begin..]
        .iter()
        .take_while(|byte| is_digit(byte))
        .count();
    let number = NUMBERS[random.below(NUMBERS.len())].to_string();
    input.splice(begin..begin + length, number.into_bytes());
}
