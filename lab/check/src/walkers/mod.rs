//! Every walker beside every pair of writers, on the seeded machine; and walkers that stop anywhere for ever.
//!
//! ```text
//!   cpu 0: a writer      cpu 1: another writer or a program      cpu 2: a walker, which may stop at a step
//!      │                        │                                     │     that the seed decides
//!      └──────── a seed decides which CPU steps next ─────────────────┘
//!                                   │
//!      both writers have returned ──┴─► the walker goes on to its end ─► everything is recounted
//! ```
//!
//! A walker that has stopped takes no step, but answers interrupts where its CPU has them on, as any CPU
//! does. If a writer waits for it, no CPU can go on, or one goes on for ever: the run ends as a deadlock or a
//! livelock. A walker that has interrupts off stops at the next step where they are on: a section with them
//! off ends soon.
//!
//! The walker itself asserts what it finds: of PFN-mapped frames a page leads to its own and no other; a word
//! of a page is one that was stored to that page, whatever its frame was used for before and afterwards;
//! rights are no more than the mappings ever had. What both writers leave is recounted, dirty bits and TLBs
//! too.
//!
//! The memory is private; or one leaf of 2 MiB, or of 1 GiB, of PFN-mapped frames, which writers split,
//! change, clear and replace by tables: the races that seed 004 lists. Or it was only read, and a table of
//! zeros shows it: there is no block of 2 MiB, so a store splits it.
//!
//! | file | holds |
//! |---|---|
//! | `writers` | what CPUs 0 and 1 do |
//! | `walker` | what CPU 2 does |
//! | `run` | one run, and all seeds of a walker and a writer |

mod run;
mod walker;
mod writers;

pub use run::{WalkFailure, run_walker};
pub use walker::Walker;
pub use writers::{Memory, Writer};

pub use interleaf_lab::machine::baton::Summary;

/// Every walker with every writer of each memory.
pub fn all() -> impl Iterator<Item = (Walker, Memory, Writer)> {
    Walker::ALL.into_iter().flat_map(|walker| {
        Memory::ALL
            .into_iter()
            .flat_map(move |memory| memory.writers().iter().map(move |&writer| (walker, memory, writer)))
    })
}
