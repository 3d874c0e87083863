//! What the page cache has of each file, when the file is first mapped.
//!
//! The kernel tells which pages come and which leave; what was there before is asked of the file itself. That
//! may be some milliseconds after it was mapped: pages that came in between are told twice, which a reader
//! takes as coming once.

use super::raw::What;
use crate::os::page_cache::{self, Resident};
use crate::trace::event::{CacheChange, Cached, FileFacts, Inode};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The files that were mapped so far.
#[derive(Debug, Default)]
pub struct PageCache {
    is_followed: bool,
    mapped: Mutex<HashSet<Inode>>,
}

impl PageCache {
    /// No file yet. Followed or not.
    pub fn new(is_followed: bool) -> PageCache {
        PageCache { is_followed, ..PageCache::default() }
    }

    /// Whether a file was mapped before.
    pub fn has(&self, inode: Inode) -> bool {
        self.is_followed && self.mapped.lock().unwrap_or_else(PoisonError::into_inner).contains(&inode)
    }

    /// What is to be told of a file of this name that is mapped: nothing from the second time on, nor where
    /// the name leads to another file by now.
    pub fn look(&self, name: &str, inode: Inode) -> Vec<What> {
        let is_new = || self.mapped.lock().unwrap_or_else(PoisonError::into_inner).insert(inode);
        if !self.is_followed || !is_new() {
            return Vec::new();
        }
        let Ok(Some(resident)) = page_cache::resident(Path::new(name), (inode.device, inode.number)) else {
            return Vec::new();
        };
        let Resident { len_bytes, is_in_memory, ranges } = resident;
        let found = |range: std::ops::Range<u64>| {
            let pages = range.end - range.start;
            What::Cache(CacheChange { inode, first: range.start, pages, cached: Cached::Found })
        };
        let facts = What::File(FileFacts { inode, len_bytes, is_in_memory });
        std::iter::once(facts).chain(ranges.into_iter().map(found)).collect()
    }
}
