//! Which steps of other threads a step waits for: those that made or touched the same memory before.

use super::program::Act;
use std::collections::BTreeMap;
use std::ops::Range;

/// A piece of memory, and the last steps that did something to it.
#[derive(Clone, Debug, Default)]
struct Piece {
    end: u64,
    /// The call that made it what it is, with its thread.
    made: Option<(u32, u32)>,
    /// The last step of each thread that touched it since.
    touched: BTreeMap<u32, u32>,
}

/// The pieces of an address space, by their starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings {
    pieces: BTreeMap<u64, Piece>,
}

impl Mappings {
    /// Notes a step of a thread; the steps of other threads that it waits for.
    pub(super) fn note(&mut self, step: u32, thread: u32, act: Act) -> Vec<u32> {
        let mut after = BTreeMap::new();
        match act {
            Act::Touch(addr, _) => self.touch(step, thread, addr, &mut after),
            Act::Map(start, len, _)
            | Act::Unmap(start, len)
            | Act::Protect(start, len, _)
            | Act::Discard(start, len) => self.make(step, thread, start..start + len, &mut after),
            Act::Move(from, from_len, to, to_len) => {
                self.make(step, thread, from..from.saturating_add(from_len), &mut after);
                self.make(step, thread, to..to + to_len, &mut after);
            }
        }
        after.remove(&thread);
        after.into_values().collect()
    }

    fn touch(&mut self, step: u32, thread: u32, addr: u64, after: &mut BTreeMap<u32, u32>) {
        let piece = self.pieces.range_mut(..=addr).next_back().map(|(_, piece)| piece);
        if let Some(piece) = piece.filter(|piece| addr < piece.end) {
            piece.made.into_iter().for_each(|(maker, made)| wait_for(after, maker, made));
            piece.touched.insert(thread, step);
        }
    }

    /// What lies in the range is made by this step from now on.
    fn make(&mut self, step: u32, thread: u32, range: Range<u64>, after: &mut BTreeMap<u32, u32>) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<u64> = self.pieces.range(range.clone()).map(|(start, _)| *start).collect();
        for start in starts {
            let piece = self.pieces.remove(&start).unwrap_or_default();
            piece.made.into_iter().for_each(|(maker, made)| wait_for(after, maker, made));
            piece.touched.into_iter().for_each(|(toucher, touched)| wait_for(after, toucher, touched));
        }
        let piece = Piece { end: range.end, made: Some((thread, step)), touched: BTreeMap::new() };
        self.pieces.insert(range.start, piece);
    }

    /// Has a piece begin at `at`, if one lies there.
    fn cut(&mut self, at: u64) {
        let Some((_, piece)) = self.pieces.range_mut(..at).next_back().filter(|(_, piece)| piece.end > at)
        else {
            return;
        };
        let upper = piece.clone();
        piece.end = at;
        self.pieces.insert(at, upper);
    }
}

/// Of each thread the last step is waited for.
fn wait_for(after: &mut BTreeMap<u32, u32>, thread: u32, step: u32) {
    let last = after.entry(thread).or_insert(step);
    *last = step.max(*last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf::units::Access;
    use interleaf::vma::VmaFlags;

    #[test]
    fn a_fault_waits_for_the_call_that_made_its_memory_and_a_call_for_the_faults_there() {
        let mut mappings = Mappings::default();
        let map = |start, len| Act::Map(start, len, VmaFlags::READ);
        let touch = |addr| Act::Touch(addr, Access::Write);
        assert!(mappings.note(0, 0, map(0x1000, 0x4000)).is_empty());
        assert_eq!(mappings.note(1, 1, touch(0x2000)), [0]);
        assert!(mappings.note(2, 0, touch(0x1000)).is_empty(), "its own call");
        assert_eq!(mappings.note(3, 2, touch(0x4fff)), [0]);
        assert!(mappings.note(4, 2, touch(0x9000)).is_empty(), "memory of no call");
        assert_eq!(mappings.note(5, 3, Act::Unmap(0x2000, 0x1000)), [2, 1, 3]);
        assert_eq!(mappings.note(6, 1, touch(0x4000)), [0], "what remains is as it was");
        assert_eq!(mappings.note(7, 0, Act::Discard(0x2000, 0x1000)), [5]);
        assert_eq!(mappings.note(8, 2, Act::Move(0x1000, 0x4000, 0x8000, 0x4000)), [7, 6]);
        assert_eq!(mappings.note(9, 1, touch(0x8000)), [8]);
    }
}
