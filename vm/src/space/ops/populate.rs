//! Populating: each page of a range is made present, as a fault would make it.
//!
//! With helpers this is a job over pages. It needs no order between pages and no lock: each page is a fault.
//! It is not undone where it fails: Linux keeps what is present, and a page may have been written to since.

use super::parallel::{TABLE_PAGES, pages, workers_for};
use crate::machine::Machine;
use crate::space::pin::error_of;
use crate::space::{AddressSpace, Error, Fault, FaultError};
use crate::sync::{NoProgress, Progress, Retry};
use crate::units::{Access, Vpn, VpnRange};
use crate::vma::VmaFlags;
use crate::work::{Chunk, Failed, Job};

/// Making pages present, as faults of the space would.
pub(in crate::space) struct Populate<'a, 'v, M: Machine> {
    pub space: &'a AddressSpace<'v, M>,
}

impl<M: Machine> Populate<'_, '_, M> {
    /// Makes each page of the range present, with helpers if there are any. Stops at a page that cannot be
    /// made present; pages before and behind it may be present or not.
    pub fn run(&self, range: VpnRange, access: Access) -> Result<(), (Vpn, FaultError)> {
        let Some(workers) = workers_for(self.space.vm, range) else { return self.serial(range, access) };
        let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
            pages(chunk).try_for_each(|page| {
                let fault = Fault { addr: page.addr(), access };
                self.space.faults().make_present_speculatively(fault).map_err(|error| (range.start, error))
            })
        });
        match workers.run(&job.align(TABLE_PAGES).min_chunk(TABLE_PAGES)) {
            Ok(_) => Ok(()),
            Err(Failed::Error(error)) => Err(error),
            Err(_) => self.serial(range, access),
        }
    }

    /// Makes each page of the range present, in order; stops at the first that cannot be.
    fn serial(&self, range: VpnRange, access: Access) -> Result<(), (Vpn, FaultError)> {
        let mut page = range.start;
        while page < range.end {
            let fault = Fault { addr: page.addr(), access };
            self.space.faults().make_present(fault).map_err(|error| (page, error))?;
            page = page.add(1);
        }
        Ok(())
    }

    /// MADV_POPULATE_*: as [`run`](Self::run), with that call's errors: [`Error::Fault`] where a
    /// fault there ends with a signal. A mapping that has changed since it was looked up is looked up again;
    /// where it is the same again, the error stands, too.
    pub fn or_fail(&self, range: VpnRange, access: Access) -> Result<(), Error> {
        let mappings = &self.space.mappings;
        if range.end > mappings.layout.areas.user.end && !mappings.layout.areas.user.covers(range) {
            return Err(Error::NoMemory);
        }
        let wanted = if access == Access::Write { VmaFlags::WRITE } else { VmaFlags::READ };
        let mut page = range.start;
        let (mut retry, mut refused) = (Retry::new("populate"), None);
        while page < range.end {
            let vma = mappings.first_in_racy(VpnRange::new(page, page.add(1))).ok_or(Error::NoMemory)?;
            if !vma.flags.contains(wanted) {
                return Err(Error::Invalid);
            }
            let part = VpnRange::new(page, range.end).intersect(vma.range);
            page = match self.run(part, access) {
                Ok(()) if !retry.is_withheld() => {
                    page = part.end;
                    continue;
                }
                Ok(()) => page,
                Err((at, FaultError::NotMapped | FaultError::NotAllowed)) => at,
                Err((_, error)) => return Err(error_of(error)),
            };
            let is_same = refused.replace((page, vma)) == Some((page, vma));
            let progress = if is_same { Progress::None } else { Progress::Observed };
            retry.again::<M::Cpu>(progress).map_err(|NoProgress| Error::Fault)?;
        }
        Ok(())
    }
}
