//! Programs, records of the kernel, words of a system call, memory maps of firmware.

use super::Parser;
use interleaf::frame::{BootMap, Init, Region, RegionKind};
use interleaf::space::{Advice, MapRequest};
use interleaf::units::{NodeId, PhysAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::boot::elf;
use interleaf_lab::trace::record::decode::{Points, Samples, decode};
use interleaf_linux_abi as linux;

pub(super) const PARSERS: [Parser; 4] = [
    Parser { name: "ELF files", weight: 3, samples: programs, read: read_program },
    Parser { name: "perf records", weight: 3, samples: records, read: read_record },
    Parser { name: "boot maps", weight: 3, samples: maps, read: read_map },
    Parser { name: "words of system calls", weight: 3, samples: words, read: read_words },
];

/// A static program of three segments.
fn programs() -> Vec<Vec<u8>> {
    let mut file = vec![0; 64 + 3 * 56 + 64];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[2, 0, 62, 0, 1]);
    put(24, &0x40_0078_u64.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(54, &[56, 0, 3]);
    for (number, rights) in [5, 6, 4].into_iter().enumerate() {
        let header = 64 + 56 * number;
        put(header, &[1, 0, 0, 0, rights]);
        put(header + 16, &(0x40_0000 + 0x1_0000 * number as u64).to_le_bytes());
        put(header + 32, &128_u64.to_le_bytes());
        put(header + 40, &4096_u64.to_le_bytes());
    }
    vec![file]
}

fn read_program(bytes: &[u8]) {
    let _ = elf::check_bytes(bytes);
}

/// A sample of each tracepoint, a mapping, a loss.
fn records() -> Vec<Vec<u8>> {
    let record = |kind: u32, words: &[u64]| {
        let mut bytes = u64::from(kind).to_le_bytes().to_vec();
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    };
    const SAMPLE: u32 = 9;
    let point = |id: u64| {
        let mut bytes = record(SAMPLE, &[5 | 6 << 32, 1000]);
        bytes.extend(80_u32.to_le_bytes());
        [id, 9, 1, 2, 3, 4, 5, 6, 7, 8].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    };
    let mut mapped = record(10, &[5 | 6 << 32, 0x1000, 0x2000, 0, 0, 0, 0, 0]);
    mapped.extend(b"/usr/lib/libc.so\0\0\0\0\0\0\0\0");
    mapped.extend([0; 16]);
    (1..=5).map(point).chain([mapped, record(2, &[0, 7])]).collect()
}

fn read_record(bytes: &[u8]) {
    let _ = decode(&Samples::Addresses, bytes);
    let points = Points::of(|name| Ok(super::text::tracepoint(name))).expect("it has all fields");
    let _ = decode(&Samples::Tracepoints(Box::new(points)), bytes);
}

/// Bytes of a region: start, length, node, kind.
const REGION_BYTES: usize = 21;

fn maps() -> Vec<Vec<u8>> {
    let region = |start: u64, len: u64, kind: u8| {
        [&start.to_le_bytes()[..], &len.to_le_bytes(), &[0; 4], &[kind]].concat()
    };
    let two = [region(0x10_0000, 64 << 20, 0), region(1 << 32, 1 << 30, 1)].concat();
    vec![[two.clone(), region(0x8000_0000, 0x1000, 2)].concat(), two]
}

fn read_map(bytes: &[u8]) {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let region = |bytes: &[u8]| Region {
        start: PhysAddr(word(&bytes[..8])),
        len_bytes: word(&bytes[8..16]),
        node: NodeId(word(&bytes[13..21]) as u32 >> 24),
        kind: match bytes[20] % 3 {
            0 => RegionKind::Usable(Init::Dirty),
            1 => RegionKind::Usable(Init::Zeroed),
            _ => RegionKind::Reserved,
        },
    };
    let regions: Vec<Region> = bytes.chunks_exact(REGION_BYTES).map(region).collect();
    if let Ok(map) = BootMap::new(&regions) {
        let _ = map.span();
        assert!(map.regions().is_sorted_by(|one, other| one.frames().end <= other.frames().start));
    }
}

/// Words of `mmap` and of `mbind`.
fn words() -> Vec<Vec<u8>> {
    let calls: [[u64; 4]; 3] = [[0, 4096, 3, 0x22], [0x1000, !0, 7, 0x31], [0, 4096, 2, 1]];
    calls.iter().map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect()).collect()
}

fn read_words(bytes: &[u8]) {
    let mut words = bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight")));
    let mut word = || words.next().unwrap_or(u64::MAX);
    let (one, two, three, four) = (word(), word(), word(), word());
    let (request, has_kind) = linux::map_request(one, two, three as u32, four as u32);
    let MapRequest { len_bytes, flags, .. } = request;
    assert!(len_bytes == two && VmaFlags::REQUESTABLE.contains(flags));
    assert_eq!(has_kind, matches!(four & 0xf, 1 | 2));
    let advice: Option<Advice> = linux::advice::advice(three as u32 as i32);
    assert!(
        advice.is_none() || linux::advice::NAMES.iter().any(|(number, _)| *number == three as u32 as i32)
    );
    let _ = linux::policy(three as u32);
    if linux::check_mincore(one, two, three, four).is_ok() {
        assert!(one.is_multiple_of(4096) && one <= four && two <= four - one);
    }
    let _ = format!("{:?}", linux::Errno(one as i32));
}
