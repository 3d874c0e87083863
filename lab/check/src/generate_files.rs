//! Random sequences about a file: mappings of it among those of anonymous memory, and calls about its length,
//! its holes and its bytes between accesses to these.

use super::calls::{Call, FILE_PAGES, FileCall, MapFlags, PAGE, Prot, REMOVE};
use super::generate::sequence;
use super::setting::Setting;
use interleaf_lab::rng::Rng;

/// Pages that the file may be made to have, at most.
const MOST_PAGES: u64 = FILE_PAGES + 4;

/// As [`sequence`], with mappings of the file at fixed places in the place of some of anonymous memory, and
/// calls about the file beside them; without policies, which a file has besides its mappings.
#[must_use]
pub fn file_sequence(seed: u64, longest: u64, setting: &Setting) -> Vec<Call> {
    let mut rng = Rng::new(!seed);
    let mut calls = Vec::new();
    for call in sequence(seed, longest, setting) {
        let call = match call {
            Call::Mbind { .. } => continue,
            Call::Mmap { hint, len, prot, flags } if may_be_of_file(prot, flags) && rng.chance(2, 3) => {
                let flags = flags - MapFlags::ANONYMOUS;
                Call::map_file(hint, len, prot, flags, rng.below(FILE_PAGES + 2))
            }
            other => other,
        };
        calls.push(call);
        if rng.chance(1, 2) {
            calls.push(beside(&call, &mut rng));
        }
    }
    calls.retain(|call| setting.admits(call));
    calls
}

/// Whether a mapping at a fixed place may be one of the file instead: of the kinds shared and private, with
/// no rights and flags that mean something else there.
fn may_be_of_file(prot: Prot, flags: MapFlags) -> bool {
    let kinds = MapFlags::SHARED | MapFlags::PRIVATE;
    let manner = MapFlags::FIXED | MapFlags::FIXED_NOREPLACE | MapFlags::LOW;
    flags.contains(MapFlags::ANONYMOUS)
        && flags & manner == MapFlags::FIXED
        && (flags & kinds == MapFlags::SHARED || flags & kinds == MapFlags::PRIVATE)
        && prot.bits() < 8
}

/// A call about the file, or about the range of memory that a call was about.
fn beside(call: &Call, rng: &mut Rng) -> Call {
    let (addr, len) = match *call {
        Call::Words { words: [addr, len, ..], .. } => (addr, len),
        Call::Mmap { hint: addr, len, .. }
        | Call::Munmap { addr, len }
        | Call::Mprotect { addr, len, .. }
        | Call::Madvise { addr, len, .. } => (addr, len),
        Call::Read { addr } | Call::Write { addr, .. } => (addr / PAGE * PAGE, PAGE),
        _ => return Call::File(file_call(rng)),
    };
    match rng.below(10) {
        0 | 1 => Call::Madvise { addr, len, advice: REMOVE },
        2 => Call::Msync { addr, len, flags: rng.pick(&[0, 1, 2, 4, 4, 4, 3, 6, 5, 7, 8, 1 << 31]) },
        3 => Call::Read { addr },
        4 => Call::Write { addr: addr + rng.below(PAGE), value: 1 + rng.below(255) as u8 },
        _ => Call::File(file_call(rng)),
    }
}

fn file_call(rng: &mut Rng) -> FileCall {
    let odd = rng.chance(1, 12);
    let page = rng.below(MOST_PAGES) * PAGE;
    let inside = rng.pick(&[0, 0, 0, 1, PAGE / 2, PAGE - 1]);
    let mut offset = page + inside;
    let mut len = rng.pick(&[1, 8, PAGE / 2, PAGE, PAGE, 2 * PAGE, 3 * PAGE - inside, PAGE - inside]);
    if odd {
        offset = rng.pick(&[offset, 1 << 63, u64::MAX, u64::MAX - PAGE + 1]);
        len = rng.pick(&[0, len, 0]);
    }
    match rng.below(10) {
        0..=2 => FileCall::Truncate { len: if odd { rng.pick(&[0, 1 << 63, u64::MAX]) } else { offset } },
        3 | 4 => {
            let len = if odd { rng.pick(&[0, 1 << 63, u64::MAX, len]) } else { len };
            FileCall::PunchHole { offset, len }
        }
        5 | 6 => FileCall::Read { offset, len },
        _ => FileCall::Write { offset, len, value: 1 + rng.below(255) as u8 },
    }
}
