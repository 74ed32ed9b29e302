// SPDX-License-Identifier: MIT
//! Every field of a message, right and wrong, and random bytes.

use proptest::prelude::*;

use super::*;

fn window() -> fg_window {
    fg_window {
        begin: 0x40_0000,
        end: 0x40_0010,
        mask: 0xff,
        value: 0,
        reg: FG_REG_AX,
        pad: 0,
    }
}

fn header(windows: u32) -> fg_registration {
    fg_registration {
        magic: FG_ABI_MAGIC,
        version: FG_ABI_VERSION,
        size: 32 + 40 * windows,
        windows,
        block_offset: -128,
        flags: 0,
    }
}

fn bytes(header: &fg_registration, windows: &[fg_window]) -> Vec<u8> {
    [header.as_bytes(), windows.as_bytes()].concat()
}

fn registered(windows: &[fg_window]) -> Parsed {
    Parsed::Complete(Message::Register(Registration {
        block_offset: -128,
        flags: 0,
        windows: windows.to_vec(),
    }))
}

#[test]
fn valid_messages() {
    for n in [0, 1, FG_MAX_WINDOWS] {
        let windows = vec![window(); n as usize];
        assert_eq!(parse(&bytes(&header(n), &windows)), registered(&windows));
    }
    let wanting = fg_registration {
        flags: FG_WANT_SLICE_FORECAST as u64,
        ..header(0)
    };
    let Parsed::Complete(Message::Register(image)) = parse(wanting.as_bytes()) else {
        panic!("a known flag is refused");
    };
    assert_eq!(image.flags, FG_WANT_SLICE_FORECAST as u64);
    assert_eq!(
        parse(&status_request(false)),
        Parsed::Complete(Message::Status)
    );
    assert_eq!(
        parse(&status_request(true)),
        Parsed::Complete(Message::List)
    );
}

#[test]
fn every_prefix_of_a_valid_message_is_incomplete() {
    let whole = bytes(&header(2), &[window(), window()]);
    for n in 0..whole.len() {
        assert_eq!(parse(&whole[..n]), Parsed::Incomplete, "{n} bytes");
    }
    for n in 0..STATUS_REQUEST_BYTES {
        assert_eq!(
            parse(&status_request(false)[..n]),
            Parsed::Incomplete,
            "{n} bytes"
        );
    }
}

#[test]
fn bytes_after_the_message_are_refused() {
    let mut whole = bytes(&header(1), &[window()]);
    whole.push(0);
    assert_eq!(parse(&whole), Parsed::Invalid(Errno::EINVAL));
    let mut status = status_request(false).to_vec();
    status.push(0);
    assert_eq!(parse(&status), Parsed::Invalid(Errno::EINVAL));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_wrong_header_field_is_refused() {
    let good = header(0);
    let cases = [
        (fg_registration { magic: 1, ..good }, Errno::EPROTO),
        (
            fg_registration {
                version: FG_ABI_VERSION + 1,
                ..good
            },
            Errno::EPROTONOSUPPORT,
        ),
        (fg_registration { size: 31, ..good }, Errno::EINVAL),
        (
            fg_registration {
                size: u32::MAX,
                ..good
            },
            Errno::EINVAL,
        ),
        (fg_registration { windows: 1, ..good }, Errno::EINVAL),
        (
            fg_registration {
                windows: FG_MAX_WINDOWS + 1,
                ..good
            },
            Errno::ENOSPC,
        ),
        (
            fg_registration {
                windows: u32::MAX,
                ..good
            },
            Errno::ENOSPC,
        ),
        (
            fg_registration {
                block_offset: -124,
                ..good
            },
            Errno::EINVAL,
        ),
        (
            fg_registration {
                block_offset: 0,
                ..good
            },
            Errno::EINVAL,
        ),
        (
            fg_registration {
                block_offset: -56,
                ..good
            },
            Errno::EINVAL,
        ),
        (
            fg_registration {
                block_offset: 64,
                ..good
            },
            Errno::ENOEXEC,
        ),
        (
            fg_registration {
                block_offset: i64::MIN,
                ..good
            },
            Errno::EINVAL,
        ),
        (fg_registration { flags: 2, ..good }, Errno::EINVAL),
    ];
    for (wrong, errno) in cases {
        assert_eq!(parse(wrong.as_bytes()), Parsed::Invalid(errno), "{wrong:?}");
    }
}

#[test]
fn an_offset_that_is_accepted_fits_a_record() {
    for range in BLOCK_OFFSETS {
        let ends = [range.start(), range.end()];
        assert!(
            ends.iter().all(|end| i32::try_from(**end).is_ok()),
            "{range:?}"
        );
    }
}

#[test]
fn each_wrong_window_field_is_refused() {
    let good = window();
    let cases = [
        fg_window {
            begin: 0,
            end: 8,
            ..good
        },
        fg_window {
            end: good.begin,
            ..good
        },
        fg_window {
            end: good.begin - 1,
            ..good
        },
        fg_window {
            end: good.begin + FG_MAX_WINDOW_BYTES as u64 + 1,
            ..good
        },
        fg_window {
            begin: USER_ADDRESS_END - 8,
            end: USER_ADDRESS_END,
            ..good
        },
        fg_window {
            begin: u64::MAX - 8,
            end: u64::MAX,
            ..good
        },
        fg_window {
            reg: FG_REG_COUNT,
            ..good
        },
        fg_window { pad: 1, ..good },
    ];
    for wrong in cases {
        let whole = bytes(&header(2), &[good, wrong]);
        assert_eq!(parse(&whole), Parsed::Invalid(Errno::EINVAL), "{wrong:?}");
    }
}

fn any_window() -> impl Strategy<Value = fg_window> {
    (
        1u64..USER_ADDRESS_END - 1024,
        1..=FG_MAX_WINDOW_BYTES as u64,
        any::<u64>(),
        any::<u64>(),
        0..FG_REG_COUNT,
    )
        .prop_map(|(begin, length, mask, value, reg)| fg_window {
            begin,
            end: begin + length,
            mask,
            value,
            reg,
            pad: 0,
        })
}

proptest! {
    #[test]
    fn random_bytes_are_never_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(!matches!(parse(&bytes), Parsed::Complete(_)));
    }

    #[test]
    fn a_valid_message_is_read_back(windows in proptest::collection::vec(any_window(), 0..=FG_MAX_WINDOWS as usize),
                                    offset in 8i64..1 << 20) {
        let header = fg_registration { block_offset: -8 * offset, ..header(windows.len() as u32) };
        let expected = Registration { block_offset: -8 * offset, flags: 0, windows: windows.clone() };
        prop_assert_eq!(parse(&bytes(&header, &windows)), Parsed::Complete(Message::Register(expected)));
    }

    /// Whatever bytes are changed, what is accepted obeys the rules that the kernel half relies on.
    #[test]
    fn what_is_accepted_is_sane(changes in proptest::collection::vec((0usize..112, any::<u8>()), 0..6)) {
        let mut whole = bytes(&header(2), &[window(), window()]);
        for (at, byte) in changes {
            whole[at] = byte;
        }
        if let Parsed::Complete(Message::Register(r)) = parse(&whole) {
            prop_assert!(r.block_offset % 8 == 0 && r.block_offset <= -64);
            for w in r.windows {
                prop_assert!(w.begin < w.end && w.end - w.begin <= FG_MAX_WINDOW_BYTES as u64);
                prop_assert!(w.reg < FG_REG_COUNT && w.end < USER_ADDRESS_END);
            }
        }
    }

    #[test]
    fn more_bytes_never_turn_a_refusal_into_acceptance(bytes in proptest::collection::vec(any::<u8>(), 0..64),
                                                       more in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Parsed::Invalid(_) = parse(&bytes) {
            prop_assert!(matches!(parse(&[bytes, more].concat()), Parsed::Invalid(_)));
        }
    }
}

#[test]
fn fuzz_messages() {
    let (registration, status) = (
        bytes(&header(2), &[window(), window()]),
        status_request(false),
    );
    let list = status_request(true);
    let corpus = [&registration[..], &status, &list];
    flexguard_fuzz::fuzz("socket-messages", &corpus, |input| {
        if let Parsed::Complete(Message::Register(image)) = parse(input) {
            assert!(image.windows.len() <= FG_MAX_WINDOWS as usize);
        }
    });
}
