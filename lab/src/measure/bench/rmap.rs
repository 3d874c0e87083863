//! What does it cost to find the entries of a frame of anonymous memory, beside knowing where they are?
//!
//! `fork.rmap_one` is a walk for the one entry of a frame that one space has; `fork.rmap_shared` an entry of
//! a frame that a space and its children map. The yardstick knows the spaces and the page: it walks to the
//! same entries, locks their tables and compares the frame. 256 pages of one table, all spaces in `Spaces`;
//! one CPU, on which no space runs.

use super::{Benchmark, Figure, Options, ns_per, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::frame::FrameRef;
use interleaf::machine::Entry;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, RmapFound, SpaceHandle, Spaces};
use interleaf::table::format::X86_64;
use interleaf::table::walk;
use interleaf::units::{Access, CpuId, Level, PAGE_SIZE, Pfn, VirtAddr, Vpn};
use std::ops::ControlFlow;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "fork.rmap",
    question: "What does it cost to find the entries of a frame, beside knowing where they are?",
    figures: &["fork.rmap_one", "fork.rmap_shared"],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
const PAGES: u64 = 256;

type Handle<'s, 'v> = SpaceHandle<'s, 'v, TimedMachine>;
type UserFrame<'v> = FrameRef<'v, TimedMachine>;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let children = options.size(63, 3) as usize;
    let pinned = options.pin();
    let machine = timed_machine::machine(options, 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let spaces = Spaces::new(&vm).map_err(Failure::of)?;
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).map_err(Failure::of)?;
    for page in 0..PAGES {
        let addr = VirtAddr(base.0 + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }
    let mut family = vec![spaces.insert(space).map_err(Failure::of)?];
    let frame = |page| family[0].inspect().resident_frame(page).expect("it was written").0;
    let pages: Vec<_> = (0..PAGES).map(|page| base.vpn().add(page)).map(|page| (page, frame(page))).collect();
    let refs = || -> Vec<UserFrame<'_>> {
        pages.iter().map(|(_, pfn)| vm.memory().try_get(*pfn).expect("user memory")).collect()
    };
    let one = figure(options, "fork.rmap_one", &spaces, &family, (&pages, &refs()));
    for _ in 0..children {
        let child = family[0].fork().map_err(Failure::of)?;
        family.push(spaces.insert(child).map_err(Failure::of)?);
    }
    let shared = figure(options, "fork.rmap_shared", &spaces, &family, (&pages, &refs()));
    drop(family);
    drop((entered, pinned));
    Ok(vec![one, shared])
}

/// Nanoseconds for an entry, of all pages in all spaces.
fn figure<'v>(
    options: &Options,
    name: &'static str,
    spaces: &Spaces<'v, TimedMachine>,
    family: &[Handle<'_, 'v>],
    (pages, frames): (&[(Vpn, Pfn)], &[UserFrame<'_>]),
) -> Figure {
    let times = options.size(400 / family.len() as u64 + 1, 1);
    let entries = (pages.len() * family.len()) as f64;
    let ours = || {
        let all = || {
            for frame in frames {
                let mut found = 0;
                let answer = spaces.rmap_walk(frame, |_| {
                    found += 1;
                    ControlFlow::Continue(())
                });
                assert_eq!((answer, found), (Ok(RmapFound::All(found)), family.len() as u32));
            }
        };
        ns_per(times, all) / entries
    };
    let theirs = || {
        let all = || {
            for (page, pfn) in pages {
                assert!(family.iter().all(|space| has_frame(space, *page, *pfn)));
            }
        };
        ns_per(times, all) / entries
    };
    paired(options, name, "ns/entry", ours, "walks to the same entries", theirs)
}

/// Whether the page maps the frame, as the lock of its table says.
fn has_frame(space: &AddressSpace<'_, TimedMachine>, page: Vpn, pfn: Pfn) -> bool {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), page, Level::Pte, &reading);
    let Some(table) = found.table.lock() else { return false };
    matches!(table.entry(found.slot), Entry::Leaf(leaf) if leaf.pfn == pfn)
}
