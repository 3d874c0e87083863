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
    let mut interpreted = file(3, 0, 0x40_0000, 200, 0x3000);
    interpreted[64] = INTERPRETER as u8;
    assert_eq!(refused(&interpreted), ElfError::NotStatic);
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
fn a_program_that_may_lie_anywhere_lies_at_the_base() {
    let mut bytes = file(3, 0, 0, 200, 0x3000);
    bytes[24..32].copy_from_slice(&0x1234u64.to_le_bytes());
    let program = Program::parse(&bytes, END).unwrap();
    assert_eq!((program.entry.0, program.headers_at.0), (PIE_BASE + 0x1234, PIE_BASE + 64));
    let segment = program.segments().next().unwrap();
    assert_eq!((segment.at.0, program.end().0), (PIE_BASE, PIE_BASE + 0x3000));
    // A larger alignment has it lie lower.
    bytes[112..120].copy_from_slice(&(2u64 << 20).to_le_bytes());
    let program = Program::parse(&bytes, END).unwrap();
    assert_eq!(program.segments().next().unwrap().at.0, 0x5555_5540_0000);
    let refused = |bytes: &[u8]| Program::parse(bytes, END).unwrap_err();
    bytes[112..120].copy_from_slice(&(1u64 << 63).to_le_bytes());
    assert_eq!(refused(&bytes), ElfError::BadSegment);
    bytes[112..120].copy_from_slice(&0x3001u64.to_le_bytes());
    assert_eq!(Program::parse(&bytes, END).unwrap().end().0, PIE_BASE + 0x3000);
    assert_eq!(refused(&file(3, 0, u64::MAX - 0x1000, 200, 0x800)), ElfError::BadSegment);
    let mut bytes = file(3, 0, 0, 200, 0x3000);
    bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(refused(&bytes), ElfError::BadEntry);
}

#[test]
fn an_empty_segment_is_left_out() {
    let mut bytes = file(2, 0, 0x40_0000, 200, 0x3000);
    bytes.splice(120.., [0; 100]);
    bytes[56] = 2;
    bytes.copy_within(64..120, 120);
    bytes[136..144].copy_from_slice(&0x40_3000u64.to_le_bytes());
    let put = |bytes: &mut Vec<u8>, in_file: u64, in_memory: u64| {
        bytes[152..160].copy_from_slice(&in_file.to_le_bytes());
        bytes[160..168].copy_from_slice(&in_memory.to_le_bytes());
    };
    put(&mut bytes, 0, 0);
    assert_eq!(Program::parse(&bytes, END).unwrap().segments().count(), 1);
    put(&mut bytes, 0, 0x1000);
    assert_eq!(Program::parse(&bytes, END).unwrap().segments().count(), 2);
}

#[test]
fn no_cut_or_flipped_byte_panics() {
    for bytes in [file(2, 0, 0x40_0000, 200, 0x3000), file(3, 0, 0x40_0000, 200, 0x3000)] {
        for len in 0..bytes.len() {
            let _ = Program::parse(&bytes[..len], END);
        }
        for (at, value) in (0..120).flat_map(|at| [0, 1, 0x7f, 0xff].map(|value| (at, value))) {
            let mut broken = bytes.clone();
            broken[at] = value;
            if let Ok(program) = Program::parse(&broken, END) {
                let fits = |segment: Segment<'_>| segment.bytes.len() as u64 <= segment.len_bytes;
                assert!(program.segments().all(fits) && program.end() <= END);
            }
        }
    }
}
