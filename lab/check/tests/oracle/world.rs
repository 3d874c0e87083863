//! Short words for sequences on the pages of the arena, carried out by the model and, where it can be asked,
//! by Linux.

use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, Outcome, PAGE, Prot, System};
use interleaf_check::model::Model;
use interleaf_check::oracle::Oracle;
use interleaf_check::setting::Setting;
use std::io::Write;
use std::ops::Range;
use std::sync::Once;

pub const NONE: Prot = Prot::empty();
pub const R: Prot = Prot::READ;
pub const W: Prot = Prot::WRITE;
pub const RW: Prot = Prot::READ.union(Prot::WRITE);
pub const RWX: Prot = RW.union(Prot::EXEC);

pub const PRIVATE: MapFlags = MapFlags::PRIVATE.union(MapFlags::ANONYMOUS);
pub const SHARED: MapFlags = MapFlags::SHARED.union(MapFlags::ANONYMOUS);

/// The oracle, or none where this host cannot be one; continuous integration must be able to.
pub fn oracle() -> Option<Oracle> {
    oracle_with_heap_at(Setting::default().start_brk)
}

/// The same with the heap elsewhere.
pub fn oracle_with_heap_at(start_brk: u64) -> Option<Oracle> {
    static TOLD: Once = Once::new();
    let oracle = Oracle::with_heap_at(start_brk);
    if let Err(reason) = &oracle {
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        // Past the harness's capture: that Linux was not asked must be seen.
        TOLD.call_once(|| writeln!(std::io::stderr(), "not run: {reason}").expect("standard error is open"));
    }
    oracle.ok()
}

/// The setting of this host, or the default one where Linux cannot be asked.
pub fn setting() -> Setting {
    oracle().map_or_else(Setting::default, |oracle| oracle.setting().clone())
}

/// What the model and Linux say to `calls`: the same.
pub fn outcome(calls: &[Call]) -> Outcome {
    let mut oracle = oracle();
    let setting = oracle.as_ref().map_or_else(Setting::default, |oracle| oracle.setting().clone());
    let said = Model::new(setting).run(calls);
    if let Some(oracle) = &mut oracle {
        assert_eq!(oracle.run(calls), said, "Linux says the left");
    }
    said
}

/// The lines of the map after `calls`, as pages of the arena.
pub fn lines(calls: &[Call]) -> Vec<Range<u64>> {
    let start = page(0);
    let map = outcome(calls).map;
    map.iter().map(|line| (line.start - start) / PAGE..(line.end - start) / PAGE).collect()
}

/// The answer to the last of `calls`.
pub fn last(calls: &[Call]) -> CallResult {
    outcome(calls).answers.pop().expect("there are calls")
}

pub fn error(errno: Errno) -> CallResult {
    CallResult::Error(errno)
}

/// Address of the `n`-th page of the arena; there are 64.
pub fn page(n: u64) -> u64 {
    Setting::default().arena().start + n * PAGE
}

/// Maps pages of the arena, privately.
pub fn map(pages: Range<u64>, prot: Prot) -> Call {
    map_as(pages, prot, PRIVATE)
}

pub fn map_as(pages: Range<u64>, prot: Prot, flags: MapFlags) -> Call {
    let len = (pages.end - pages.start) * PAGE;
    Call::Mmap { hint: page(pages.start), len, prot, flags: flags | MapFlags::FIXED }
}

pub fn unmap(pages: Range<u64>) -> Call {
    Call::Munmap { addr: page(pages.start), len: (pages.end - pages.start) * PAGE }
}

pub fn protect(pages: Range<u64>, prot: Prot) -> Call {
    Call::Mprotect { addr: page(pages.start), len: (pages.end - pages.start) * PAGE, prot }
}

pub fn advise(pages: Range<u64>, advice: i32) -> Call {
    Call::Madvise { addr: page(pages.start), len: (pages.end - pages.start) * PAGE, advice }
}

pub fn mincore(pages: Range<u64>) -> Call {
    Call::Mincore { addr: page(pages.start), len: (pages.end - pages.start) * PAGE }
}

pub fn read(n: u64) -> Call {
    Call::Read { addr: page(n) }
}

pub fn write(n: u64) -> Call {
    Call::Write { addr: page(n), value: 7 }
}
