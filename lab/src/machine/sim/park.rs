//! Wait loops, left out while nothing changes.
//!
//! A loop that only loads lines that the CPU has, the same in two rounds, does so for ever until one of the
//! lines is written or an interrupt comes: the CPU *parks* instead. It goes on at the end of the round from
//! which on its loads meet the change, and counts the rounds before as if it had done them.
//!
//! ```text
//!   began   pause   end of round 0     loads     pause   end of round 1     loads
//!     |--------------|-----------------1---2------|-----------------1---2--- ...
//!                                        ^ line 2 is written: the CPU goes on at the end of round 0
//! ```

use super::profile::Ps;

/// Loads of a round that are followed.
const MOST_LOOKS: usize = 4;
/// In place of the number of loads: the round did something else.
const SPOILT: u8 = u8::MAX;

/// What a CPU has done since it last waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopRound {
    lines: [u32; MOST_LOOKS],
    len: u8,
}

impl LoopRound {
    pub(super) const NEW: Self = Self { lines: [0; MOST_LOOKS], len: 0 };

    /// It has loaded from a line that it had.
    #[inline]
    pub(super) fn look(&mut self, line: u32) {
        match self.lines.get_mut(self.len as usize) {
            Some(slot) => {
                *slot = line;
                self.len += 1;
            }
            None => self.spoil(),
        }
    }

    /// It has done something else.
    #[inline]
    pub(super) fn spoil(&mut self) {
        self.len = SPOILT;
    }

    /// The lines that it has loaded from, each once; nothing where it did more.
    pub(super) fn repeatable(&self) -> Option<&[u32]> {
        let lines = self.lines.get(..self.len as usize)?;
        let is_first = |(at, line): (usize, &u32)| !lines[..at].contains(line);
        (!lines.is_empty() && lines.iter().enumerate().all(is_first)).then_some(lines)
    }
}

/// A CPU that is parked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Park {
    pub(super) round: LoopRound,
    /// When it would have paused.
    pub(super) began: Ps,
    pub(super) pause: Ps,
    /// Time from one load to the next.
    pub(super) gap: Ps,
}

impl Park {
    fn period(&self) -> Ps {
        self.pause + Ps::from(self.round.len) * self.gap
    }

    /// When the pause of a round ends, the first being round 0.
    pub(super) fn end_of(&self, round: u64) -> Ps {
        self.began + self.pause + round * self.period()
    }

    /// Number of rounds that have passed when the pause of the last of them ends at `clock`.
    pub(super) fn rounds_at(&self, clock: Ps) -> u64 {
        (clock - self.began - self.pause) / self.period() + 1
    }

    /// The first round whose load of `line` comes after a write; events of one time go by the CPUs' numbers.
    pub(super) fn round_after_write(&self, line: u32, cpu: u32, written: Ps, writer: u32) -> u64 {
        let at = self.round.lines.iter().position(|&looked| looked == line).expect("a line that it looks at");
        let first = self.end_of(0) + (at as Ps + 1) * self.gap;
        let rounds = written.saturating_sub(first).div_ceil(self.period());
        let is_after = |round: u64| (first + round * self.period(), cpu) > (written, writer);
        if is_after(rounds) { rounds } else { rounds + 1 }
    }

    /// The last round whose pause ends before an interrupt arrives.
    pub(super) fn round_before(&self, arrives: Ps) -> u64 {
        arrives.saturating_sub(self.end_of(0)) / self.period()
    }
}

#[cfg(test)]
#[path = "tests/park.rs"]
mod tests;
