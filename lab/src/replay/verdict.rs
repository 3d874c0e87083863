//! What a comparison of a life came to.

use super::difference::Differences;
use super::resident::ResidentLife;
use super::step::Way;
use crate::trace::Sys;
use interleaf::units::{PageSize, Pfn};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was compared in a life.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Recorded faults that were performed as accesses.
    pub performed: u64,
    /// Of these, the ones that faulted here.
    pub faulted: u64,
    /// Calls by name and by how they were replayed.
    pub calls: BTreeMap<(Sys, Way), CallCount>,
    /// Places that Linux chose, and how many of them we chose too.
    pub places: Agreed,
    /// What differs.
    pub differences: Differences,
    /// Writes to pages of which another space had the frame too, and which were copied.
    pub copied: u64,
    /// Both maps at the end, Linux's first, if something unexplained differs.
    pub maps: Option<[Vec<String>; 2]>,
    /// Whether the final maps were compared.
    pub map_compared: bool,
    /// How much memory it had.
    pub resident: ResidentLife,
    /// Huge pages here of which Linux had base pages though its setting is ours, by their first page.
    pub lacked_huge: BTreeSet<u64>,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreed {
    /// Those that agreed.
    pub agreed: u64,
    /// All.
    pub of: u64,
}

/// Calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCount {
    /// How many.
    pub times: u64,
    /// How many were answered as Linux did.
    pub agreed: u64,
}

/// What a page got its frame by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The frame was zeroed.
    Zeroed(Pfn),
    /// The folio of a huge page was zeroed, which begins at the frame.
    ZeroedFolio(Pfn),
    /// The second was copied from the first.
    Copied(Pfn, Pfn),
}

impl Filled {
    /// Frames that were zeroed.
    pub fn frames_zeroed(self) -> u64 {
        match self {
            Filled::Zeroed(_) => 1,
            Filled::ZeroedFolio(_) => PageSize::Huge.pages(),
            Filled::Copied(..) => 0,
        }
    }
}
