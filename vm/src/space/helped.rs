//! Large ranges with helpers: populating, and the end of a space.
//!
//! Both are jobs over pages, cut where a table ends, so that no two workers edit one table. A range too small
//! for two workers, or a system without a crew, is worked on by its caller as ever.
//!
//! Populating is a fault for each page and needs no order. It is not undone where it fails: Linux keeps what
//! is present, and a page may have been written to since. At a space's end no CPU runs it and its lock is
//! held alone, so leaves may be cleared before their mappings go; each chunk gathers, flushes (nobody) and
//! frees by itself.

use super::body::{Ended, attempt};
use super::carried::Carried;
use super::error::FaultError;
use super::fault::Fault;
use super::proof::Speculated;
use super::{AddressSpace, SpaceAlone};
use crate::job::{Chunk, Crew, Failed, Job};
use crate::machine::Machine;
use crate::units::{Access, Level, Vpn, VpnRange};
use core::convert::Infallible;

/// Pages that one table of leaves covers: the least that is worth a helper, and where ranges are cut.
pub(super) const TABLE_PAGES: u64 = Level::Pte.table_pages();

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// The system's crew, where two workers would each have a table's worth to do.
    fn crew_for(&self, range: VpnRange) -> Option<&'v Crew<'v, M>> {
        self.vm.crew.filter(|_| range.len() >= 2 * TABLE_PAGES)
    }

    /// Makes each page of the range present, as a fault would, with helpers if there are any. Stops where one
    /// cannot be; pages before and behind that may be present or not.
    pub(super) fn populate(&self, range: VpnRange, access: Access) -> Result<(), (Vpn, FaultError)> {
        let Some(crew) = self.crew_for(range) else { return self.populate_alone(range, access) };
        let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
            pages(chunk).try_for_each(|page| {
                let fault = Fault { addr: page.addr(), access };
                self.make_present_without_lock(fault).map_err(|error| (range.start, error))
            })
        });
        match crew.run(&job.align(TABLE_PAGES).min_chunk(TABLE_PAGES)) {
            Ok(_) => Ok(()),
            Err(Failed::Error(error)) => Err(error),
            Err(_) => self.populate_alone(range, access),
        }
    }

    /// As [`make_present`](Self::make_present), but several CPUs at once do not fight for the space's lock.
    fn make_present_without_lock(&self, fault: Fault) -> Result<(), FaultError> {
        match attempt(self, fault, &Speculated, &mut Carried::new(self.vm)) {
            Ok(Ended::Resolved) => Ok(()),
            _ => self.make_present(fault),
        }
    }

    /// Clears the leaves of all mappings that are large enough for helpers, if there are any. The space is at
    /// its end: no CPU runs it.
    pub(super) fn clear_with_helpers(&self, alone: &SpaceAlone<'_, M>, all: VpnRange) {
        let mut rest = all;
        while self.vm.crew.is_some()
            && let Some(vma) = self.first_in(rest)
        {
            rest = VpnRange::new(vma.range.end, all.end);
            if let Some(crew) = self.crew_for(vma.range) {
                self.clear_one(crew, alone, vma.range);
            }
        }
    }

    fn clear_one(&self, crew: &Crew<'_, M>, _alone: &SpaceAlone<'_, M>, range: VpnRange) {
        let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
            self.zap(VpnRange::new(Vpn(chunk.start), Vpn(chunk.end)));
            Ok::<(), Infallible>(())
        });
        // What a helper left behind that panicked is cleared by who ends the space, as everything is without
        // helpers.
        let _done = crew.run(&job.align(TABLE_PAGES).min_chunk(TABLE_PAGES));
    }
}

fn pages(chunk: &Chunk<'_>) -> impl Iterator<Item = Vpn> {
    chunk.range().map(Vpn)
}
