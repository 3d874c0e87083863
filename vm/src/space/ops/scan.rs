//! One step of the scanner that looks for regions to collapse (khugepaged), for a thread of the embedder's.
//!
//! ```text
//!   step: from a page on, at most so many regions ─► mapping and entries, read without a lock ─► worth it?
//!                                                                                    one: collapse it
//! ```
//!
//! A region that is not worth it costs a look at its mapping, its table and the records of its frames, and
//! writes nothing. When to take the next step, and of which space, is the embedder's policy.

use crate::machine::Machine;
use crate::space::{AddressSpace, Collapsed};
use crate::units::{Order, Vpn, VpnRange};
use crate::vma::{CollapseLimits, CollapseRefusal, Requester};

/// What a step of a scan has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStep {
    /// Where the next step goes on; the start of the space, once all of it was scanned.
    pub next: Vpn,
    /// Mappings and regions that were looked at.
    pub looked_at: u32,
    /// The first page of the region that was collapsed.
    pub collapsed: Option<Vpn>,
    /// Why the region that was looked at last stays as it is.
    pub refused: Option<CollapseRefusal>,
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Looks for a region to collapse from `page` on, as the policy allows, within `limits`. Ends with the
    /// first that was collapsed or for which no block was free, after `most` mappings and regions, or at the
    /// end of the space. Takes no lock but to collapse.
    pub fn scan_to_collapse(&self, page: Vpn, most: u32, limits: &CollapseLimits) -> ScanStep {
        let end = self.layout().areas.user.end;
        let collapser = self.collapser(Requester::Scanner, limits);
        let mut step = ScanStep { next: page, looked_at: 0, collapsed: None, refused: None };
        while step.looked_at < most {
            let rest = VpnRange::new(step.next.min(end), end);
            let Some(vma) = self.mappings.first_in_racy(rest) else {
                step.next = Vpn(0);
                break;
            };
            step.looked_at += 1;
            let size = Order::HUGE.frames();
            let start = Vpn(step.next.max(vma.range.start).0.next_multiple_of(size));
            step.next = start.add(size).min(vma.range.end);
            match collapser.region(&vma, start) {
                Ok(Collapsed::Copied) => {
                    (step.collapsed, step.refused) = (Some(start), None);
                    break;
                }
                Ok(Collapsed::Already) => step.refused = None,
                Err(why) => {
                    step.refused = Some(why);
                    match why {
                        // No region of the mapping is any better.
                        CollapseRefusal::Mapping => step.next = vma.range.end,
                        CollapseRefusal::NoMemory => break,
                        _ => {}
                    }
                }
            }
        }
        step
    }
}
