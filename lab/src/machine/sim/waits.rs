//! What CPUs waited for: by line, and by the place in the source that wanted it.

use super::profile::Ps;
use crate::machine::watch::Place;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What all CPUs together waited for at one place, for one line; or for their own stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The host address that was first wanted there; 0 where they waited for their own stores.
    pub addr: usize,
    /// The place in the source.
    pub place: Place,
    /// How often the line had to come.
    pub moves: u64,
    /// How long it was on its way.
    pub moving: Ps,
    /// How long the CPUs queued for it before.
    pub queued: Ps,
    /// How long they spun, after they had looked at it last.
    pub spun: Ps,
    /// How long they slept on it.
    pub slept: Ps,
    /// How long a read-modify-write or a fence waited for earlier stores of its CPU.
    pub drained: Ps,
}

impl Wait {
    fn none(addr: usize, place: Place) -> Self {
        Self { addr, place, moves: 0, moving: 0, queued: 0, spun: 0, slept: 0, drained: 0 }
    }

    /// All of it.
    pub fn total(&self) -> Ps {
        self.moving + self.queued + self.spun + self.slept + self.drained
    }
}

/// Waits by line and place.
#[derive(Default)]
pub(super) struct Waits {
    by_place: HashMap<(u32, usize), Wait, BuildHasherDefault<Mix>>,
}

impl Waits {
    /// The waits for a line at a place.
    pub(super) fn at(&mut self, line: u32, addr: usize, place: Place) -> &mut Wait {
        let key = (line, (&raw const *place).addr());
        self.by_place.entry(key).or_insert_with(|| Wait::none(addr, place))
    }

    /// All of them, each with its line; by line and place.
    pub(super) fn list(&self) -> Vec<(u32, Wait)> {
        let mut all: Vec<_> = self.by_place.iter().map(|(&(line, _), &wait)| (line, wait)).collect();
        let order =
            |(line, Wait { place, .. }): &(u32, Wait)| (*line, place.file(), place.line(), place.column());
        all.sort_by_key(order);
        all
    }
}

/// Mixes two small numbers.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
