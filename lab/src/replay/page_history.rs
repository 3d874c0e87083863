//! What Linux's page cache had of a file, page by page and instant by instant.
//!
//! The recorder looks at a file some time after it was mapped (*found*), and is told what comes and what
//! leaves from then on. So of a page the last change before an instant decides; without one, the first change
//! after it: what came later was not there before. Else it is as it was found.

use super::spans::Spans;
use crate::trace::{CacheChange, Cached};
use std::collections::HashMap;
use std::ops::Range;

/// Pages of a bucket.
const BUCKET: u64 = 64;
/// Pages of a change that is put into buckets; folios of the page cache are not larger.
const BUCKETED_MOST: u64 = 512;

/// What the cache had of a file.
#[derive(Clone, Debug, Default)]
pub struct PageHistory {
    found: Spans<()>,
    /// By rising time.
    changes: Vec<Change>,
    /// Changes by the buckets that they touch.
    buckets: HashMap<u64, Vec<u32>>,
    /// Those of more pages.
    wide: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Change {
    time_ns: u64,
    pages: Range<u64>,
    came: bool,
}

impl PageHistory {
    /// Notes what was recorded, by rising time.
    pub fn note(&mut self, time_ns: u64, change: &CacheChange) {
        let pages = change.first..change.first.saturating_add(change.pages);
        if change.cached == Cached::Found {
            self.found.put(pages, ());
            return;
        }
        let Ok(number) = u32::try_from(self.changes.len()) else { return };
        if change.pages > BUCKETED_MOST {
            self.wide.push(number);
        } else {
            for bucket in pages.start / BUCKET..pages.end.div_ceil(BUCKET) {
                self.buckets.entry(bucket).or_default().push(number);
            }
        }
        self.changes.push(Change { time_ns, pages, came: change.cached == Cached::Added });
    }

    /// Whether the cache had the page at an instant.
    pub fn has(&self, page: u64, time_ns: u64) -> bool {
        let (mut before, mut after) = (None::<&Change>, None::<&Change>);
        let near = self.buckets.get(&(page / BUCKET)).into_iter().flatten().chain(&self.wide);
        for change in near.map(|&number| &self.changes[number as usize]) {
            if !change.pages.contains(&page) {
                continue;
            }
            if change.time_ns <= time_ns {
                before = before.filter(|last| last.time_ns > change.time_ns).or(Some(change));
            } else {
                after = after.filter(|first| first.time_ns <= change.time_ns).or(Some(change));
            }
        }
        match (before, after) {
            (Some(change), _) => change.came,
            (None, Some(change)) => !change.came,
            (None, None) => self.found.at(page).is_some(),
        }
    }
}

#[cfg(test)]
#[path = "tests/page_history.rs"]
mod tests;
