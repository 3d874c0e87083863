//! The way that a space's faults go: its path, and whether several CPUs run the space. One word, which every
//! fault reads once.

#[cfg(all(test, not(loom)))]
use super::Outcome;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};

/// The path that faults of a space take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Path {
    /// Speculate, and take the lock where that gives up.
    #[default]
    Speculative,
    /// Always read-lock the space.
    Locked,
    /// Hold the mapping's record, as Linux does, and take the space's lock where that is refused: a
    /// yardstick.
    VmaLock,
}

impl Path {
    /// All of them.
    pub const ALL: [Path; 3] = [Path::Speculative, Path::VmaLock, Path::Locked];

    /// The name in tables, in JSON and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Path::Speculative => "speculative",
            Path::VmaLock => "vma-lock",
            Path::Locked => "locked",
        }
    }

    /// How a fault ends that does not fall back.
    #[cfg(all(test, not(loom)))]
    pub(in crate::space) const fn outcome(self) -> Outcome {
        match self {
            Path::Speculative => Outcome::Speculated,
            Path::VmaLock => Outcome::VmaLocked,
            Path::Locked => Outcome::Locked,
        }
    }
}

/// The word of a space. Relaxed: the path never changes, and the rest is a hint.
pub(in crate::space) struct FaultWay<C: Cpu>(AtomicU32<C>);

/// The word, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way(u32);

/// Added to the number of the path: several CPUs have run the space at once.
const SHARED: u32 = 4;

impl<C: Cpu> FaultWay<C> {
    /// Of a space that no CPU runs.
    pub const fn new(path: Path) -> Self {
        Self(AtomicU32::new(path as u32))
    }

    /// Notes that several CPUs run the space.
    pub fn note_shared(&self) {
        let way = self.0.load(Relaxed);
        if way & SHARED == 0 {
            self.0.store(way | SHARED, Relaxed);
        }
    }

    /// The path.
    pub fn path(&self) -> Path {
        self.read().path()
    }

    /// Whether several CPUs have run the space at once.
    #[cfg(all(test, not(loom)))]
    pub fn is_shared(&self) -> bool {
        self.read().is_shared()
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Way {
        Way(self.0.load(Relaxed))
    }
}

impl Way {
    /// The path.
    pub fn path(self) -> Path {
        match self.0 & !SHARED {
            0 => Path::Speculative,
            1 => Path::Locked,
            _ => Path::VmaLock,
        }
    }

    /// Whether several CPUs have run the space at once.
    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The path, if it is one of the two whose code is part of `resolve`, of a space that one CPU runs.
    #[inline(always)]
    pub fn of_one_cpu(self) -> Option<Path> {
        match self.0 {
            0 => Some(Path::Speculative),
            1 => Some(Path::Locked),
            _ => None,
        }
    }
}
