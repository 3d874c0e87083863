//! Recounting a machine at rest: one file for each invariant, all of them run after every test.
//!
//! | file | what holds |
//! |---|---|
//! | `frames` | every frame is in one state; counts are those of the entries that map it; zero is zero |
//! | `mappings` | mappings are in order, sound, and the index says so |
//! | `entries` | every leaf lies in a mapping that allows it; no table without a mapping; no marker |
//! | `files` | an entry of a file lets stores through only while its page is dirty |
//! | `rmap` | each anonymous frame leads to all entries that map it |
//! | `translations` | no TLB holds what the tables do not say |
//! | `copies` | what copies translations hears of every change |
//! | `totals` | done, fallbacks and errors add up to faults; garbage is bounded |
//!
//! They recount from the outside: tables are walked entry by entry, and no record that the library keeps
//! about itself is trusted where it can be counted.

mod copies;
mod entries;
mod files;
mod frames;
mod mappings;
mod rmap;
mod system;
mod totals;
mod translations;
mod walk;

pub use system::QuiescentSystem;
pub use walk::{Seen, each_entry};

use interleaf::machine::Format;
use interleaf_lab::machine::soft::Flavour;
use walk::Walked;

/// Says what is wrong, or nothing, of a machine whose tables say that.
type Check<C, F> = fn(&QuiescentSystem<'_, '_, C, F>, &Walked) -> Result<(), String>;

impl<C: Flavour, F: Format> QuiescentSystem<'_, '_, C, F> {
    const CHECKS: [(&'static str, Check<C, F>); 9] = [
        ("mappings", mappings::check),
        ("entries", entries::check),
        ("files", files::check),
        ("frames", frames::check),
        ("rmap", rmap::check),
        ("translations", translations::check),
        ("copies", copies::check),
        ("totals", totals::check),
        ("violations", violations),
    ];

    /// Recounts everything.
    ///
    /// # Errors
    /// The first thing that does not hold, with the name of the checker.
    pub fn recount(&self) -> Result<(), String> {
        let walked = Walked::of(self.spaces);
        Self::CHECKS
            .iter()
            .try_for_each(|(name, check)| check(self, &walked).map_err(|wrong| format!("{name}: {wrong}")))
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// Where something does not hold.
    #[track_caller]
    pub fn must_hold(&self) {
        self.recount().unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// The TLBs noticed no violation.
fn violations<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    _: &Walked,
) -> Result<(), String> {
    let seen = system.machine.violations();
    if seen.is_empty() { Ok(()) } else { Err(format!("{seen:?}")) }
}
