//! The modes of `mbind`.

use interleaf::units::NodeId;
use interleaf::vma::Policy;
use linux_raw_sys::mempolicy as raw;

const DEFAULT: u32 = raw::MPOL_DEFAULT as u32;
const PREFERRED: u32 = raw::MPOL_PREFERRED as u32;
const BIND: u32 = raw::MPOL_BIND as u32;
const INTERLEAVE: u32 = raw::MPOL_INTERLEAVE as u32;
const LOCAL: u32 = raw::MPOL_LOCAL as u32;

/// The policy of a mode of `mbind` and the bits of its nodes.
pub fn policy(mode: u32, nodes: u64) -> Option<Policy> {
    match (mode, nodes) {
        (DEFAULT | LOCAL, 0) | (PREFERRED, 0) => Some(Policy::LOCAL),
        (PREFERRED, _) => Policy::preferred(NodeId(nodes.trailing_zeros())),
        (BIND, _) => Policy::bind(nodes),
        (INTERLEAVE, _) => Policy::interleave(nodes),
        _ => None,
    }
}
