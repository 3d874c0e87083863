//! `mbind`, on a machine whose only node with memory is node 0.

use super::mapping::Mapping;
use super::{Model, Page};
use crate::calls::{Errno, PAGE};

/// The memory policy of a mapping that has one: what Linux compares when it merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Policy {
    /// The mode's number.
    mode: u32,
    /// The bits of the mode word that are no mode.
    flags: u32,
    /// The nodes that are kept.
    nodes: u64,
}

const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const BIND: u32 = 2;
const LOCAL: u32 = 4;
const PREFERRED_MANY: u32 = 5;
const LAST_MODE: u32 = 6;

const STATIC_NODES: u32 = 0x8000;
const RELATIVE_NODES: u32 = 0x4000;
const NUMA_BALANCING: u32 = 0x2000;

const STRICT: u32 = 1;
const MOVE: u32 = 2;
const MOVE_ALL: u32 = 4;

impl Model {
    /// Sets the policy of `[addr, addr + len)`, mapping by mapping.
    pub(super) fn mbind(
        &mut self,
        addr: u64,
        len: u64,
        mode: u32,
        nodes: u64,
        flags: u32,
    ) -> Result<u64, Errno> {
        let (mode, mode_flags) = mode_of(mode)?;
        if flags & !(STRICT | MOVE | MOVE_ALL) != 0 {
            return Err(Errno::EINVAL);
        }
        if flags & MOVE_ALL != 0 {
            return Err(Errno::EPERM);
        }
        if !addr.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        // A length that rounds up to 2^64 is none.
        let len = len.checked_next_multiple_of(PAGE).unwrap_or(0);
        let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
        if len == 0 {
            return Ok(0);
        }
        let policy = policy(mode, mode_flags, nodes)?;
        let refuses_pages = flags & (STRICT | MOVE) == STRICT && nodes & 1 == 0;
        self.check_parts(addr, end, policy, refuses_pages)?;
        self.set_policies(addr, end, policy)
    }

    /// Only the default policy may be set over holes, and not over a hole alone. A strict call refuses pages
    /// that lie elsewhere: here all, if node 0 is not named. Shared memory is not looked at.
    fn check_parts(&self, addr: u64, end: u64, policy: Option<Policy>, strict: bool) -> Result<(), Errno> {
        let mut at = addr;
        while let Some(mapping) = self.first_between(at, end) {
            let (from, to) = (mapping.start.max(at), mapping.end.min(end));
            let has_hole = from > at || to < end && self.mappings.at(to).is_none();
            if has_hole && policy.is_some() {
                return Err(Errno::EFAULT);
            }
            let mut own = self.pages.range(from..to).filter(|(_, page)| matches!(page, Page::Own(_)));
            if strict && policy.is_some() && mapping.object.is_none() && own.next().is_some() {
                return Err(Errno::EIO);
            }
            at = to;
        }
        if at == addr { Err(Errno::EFAULT) } else { Ok(()) }
    }

    /// The first mapping that has a page in `[at, end)`.
    fn first_between(&self, at: u64, end: u64) -> Option<&Mapping> {
        self.mappings.first_after(at).filter(|mapping| at < end && mapping.start < end)
    }

    fn set_policies(&mut self, addr: u64, end: u64, policy: Option<Policy>) -> Result<u64, Errno> {
        let mut at = addr;
        while let Some(mapping) = self.first_between(at, end) {
            let (from, to) = (mapping.start.max(at), mapping.end.min(end));
            if mapping.policy != policy {
                let change = |part: Mapping| Mapping { policy, ..part };
                self.mappings.change(from, to, change, self.most_mappings())?;
            }
            at = to;
        }
        Ok(0)
    }
}

/// Mode and flags of a mode word.
fn mode_of(word: u32) -> Result<(u32, u32), Errno> {
    let flags = word & (STATIC_NODES | RELATIVE_NODES | NUMA_BALANCING);
    let mode = word - flags;
    let contradicts = flags & STATIC_NODES != 0 && flags & RELATIVE_NODES != 0;
    let balances = mode == BIND || mode == PREFERRED_MANY;
    if mode > LAST_MODE || contradicts || flags & NUMA_BALANCING != 0 && !balances {
        return Err(Errno::EINVAL);
    }
    Ok((mode, flags))
}

/// The policy that a mapping gets, none for the default.
fn policy(mode: u32, flags: u32, nodes: u64) -> Result<Option<Policy>, Errno> {
    let keeps_nodes = flags & (STATIC_NODES | RELATIVE_NODES) != 0;
    let local = Some(Policy { mode: LOCAL, flags: 0, nodes: 0 });
    match (mode, nodes) {
        (DEFAULT, 0) => return Ok(None),
        (LOCAL | PREFERRED, 0) if !keeps_nodes => return Ok(local),
        (DEFAULT | LOCAL, _) | (_, 0) => return Err(Errno::EINVAL),
        _ => {}
    }
    // Counted round, every node is node 0.
    let means_node_0 = nodes & 1 == 1 || flags & RELATIVE_NODES != 0;
    if !means_node_0 {
        return Err(Errno::EINVAL);
    }
    Ok(Some(Policy { mode, flags, nodes: if keeps_nodes { nodes } else { 1 } }))
}
