//! Tests of reading program files.

use super::*;
extern crate std;
use std::vec::Vec;

const END: VirtAddr = VirtAddr(1 << 47);

/// A program of one segment with the given numbers.
fn file(kind: u16, from: u64, at: u64, in_file: u64, in_memory: u64) -> Vec<u8> {
    let mut bytes = std::vec![0; 200];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&X86_64.to_le_bytes());
    bytes[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
    bytes[64..72].copy_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
    for (offset, value) in [(72, from), (80, at), (96, in_file), (104, in_memory)] {
        bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[test]
fn a_static_program_says_what_goes_where() {
    let bytes = file(2, 0, 0x40_0000, 200, 0x3000);
    let program = Program::parse(&bytes, END).unwrap();
    assert_eq!((program.entry, program.headers_at), (VirtAddr(0x40_1000), VirtAddr(0x40_0040)));
    let segment = program.segments().next().unwrap();
    assert_eq!((segment.bytes.len(), segment.len_bytes, segment.flags), (200, 0x3000, 5));
    assert_eq!(program.end(), VirtAddr(0x40_3000));
}

#[test]
fn what_cannot_run_is_refused_for_its_own_reason() {
    let refused = |bytes: &[u8]| Program::parse(bytes, END).unwrap_err();
    assert_eq!(refused(b"#!/bin/sh"), ElfError::NotElf);
    assert_eq!(refused(&file(3, 0, 0x40_0000, 200, 200)), ElfError::NotStatic);
    assert_eq!(refused(&file(1, 0, 0x40_0000, 200, 200)), ElfError::NoProgram);
    assert_eq!(refused(&file(2, 0, 0x40_0000, 200, 200)), ElfError::BadEntry);
    assert_eq!(refused(&file(2, 0, 0x40_0000, 201, 300)), ElfError::Truncated);
    assert_eq!(refused(&file(2, u64::MAX, 0x40_0000, 2, 300)), ElfError::Truncated);
    assert_eq!(refused(&file(2, 0, 0x40_0000, 200, 100)), ElfError::BadSegment);
    assert_eq!(refused(&file(2, 0, 1 << 47, 100, 100)), ElfError::BadSegment);
    assert_eq!(refused(&file(2, 0, u64::MAX, 1, 1)), ElfError::BadSegment);
    assert_eq!(refused(&file(2, 0, 0, 1, 1)), ElfError::BadSegment);
}

#[test]
fn no_cut_or_flipped_byte_panics() {
    let bytes = file(2, 0, 0x40_0000, 200, 0x3000);
    for len in 0..bytes.len() {
        let _ = Program::parse(&bytes[..len], END);
    }
    for at in 0..120 {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = bytes.clone();
            broken[at] = value;
            if let Ok(program) = Program::parse(&broken, END) {
                assert!(program.segments().all(|segment| segment.bytes.len() as u64 <= segment.len_bytes));
            }
        }
    }
}
