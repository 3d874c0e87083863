//! Random words: mostly sensible, some of them at the edges of what 64 bits can say.

use interleaf_lab::rng::Rng;

/// Numbers at which something ends: pages, halves of the address space, huge pages.
const EDGES: [u64; 18] = [
    0,
    1,
    4095,
    4096,
    4097,
    0xf000,
    0x1_0000,
    1 << 21,
    1 << 30,
    1 << 31,
    1 << 47,
    (1 << 47) - 4096,
    1 << 48,
    1 << 56,
    1 << 63,
    !0 << 47,
    !4095,
    !0,
];

/// Any word: of all bits, of few, beside a power of two, a multiple of pages, near 2^64, or an edge.
pub(super) fn wild(rng: &mut Rng) -> u64 {
    match rng.below(7) {
        0 => rng.bits(),
        1 => rng.bits() >> rng.below(64),
        2 => rng.pick(&EDGES),
        3 => rng.bits() >> rng.below(64) & !4095,
        4 => rng.below(1 << 20).wrapping_neg(),
        5 => (1_u64 << rng.below(64)).wrapping_add(rng.below(3)).wrapping_sub(1),
        _ => rng.below(300),
    }
}

/// Bytes that are special somewhere.
const BYTES: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'9', b'-', b' ', b'\n', b':', b','];

/// Changes `bytes` in 1 to `most` places: bits, bytes, words, pieces left out, doubled or cut off.
pub(super) fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, most: u64) {
    for _ in 0..1 + rng.below(most) {
        let Some(last) = bytes.len().checked_sub(1) else {
            bytes.push(rng.bits() as u8);
            continue;
        };
        let at = rng.below(bytes.len() as u64) as usize;
        let piece = (1 + rng.below(16) as usize).min(bytes.len() - at);
        match rng.below(9) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.bits() as u8,
            2 => bytes[at] = rng.pick(&BYTES),
            3 => {
                let word = wild(rng).to_le_bytes();
                let room = word.len().min(bytes.len() - at);
                bytes[at..at + room].copy_from_slice(&word[..room]);
            }
            4 => drop(bytes.drain(at..at + piece)),
            5 => {
                let copy = bytes[at..at + piece].to_vec();
                let to = rng.below(last as u64 + 2) as usize;
                bytes.splice(to..to, copy);
            }
            6 => bytes.truncate(at),
            7 => {
                let digits = wild(rng).to_string();
                bytes.splice(at..at + piece, digits.bytes());
            }
            _ => bytes.insert(at, rng.bits() as u8),
        }
    }
}
