//! Memory policies: the words of `mbind`.

use crate::Errno;
use interleaf::space::Misplaced;
use interleaf::units::PAGE_SIZE;
use interleaf::vma::{PolicyFlags, PolicyMode, PolicyRequest};
use linux_raw_sys::mempolicy as raw;

/// The bits of the mode word that say how nodes are read.
const MODE_FLAGS: [(u32, PolicyFlags); 3] = [
    (raw::MPOL_F_STATIC_NODES, PolicyFlags::STATIC),
    (raw::MPOL_F_RELATIVE_NODES, PolicyFlags::RELATIVE),
    (raw::MPOL_F_NUMA_BALANCING, PolicyFlags::BALANCING),
];

/// Nodes that Linux for x86-64 can name at most; a mask may be longer if the rest is empty.
const MAX_NODES: u64 = 1024;

/// The policy of a mode word, without nodes yet.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown modes and for flags that contradict each other or the mode.
pub fn policy(mode: u32) -> Result<PolicyRequest, Errno> {
    let known = MODE_FLAGS.iter().filter(|(bit, _)| mode & bit != 0);
    let (bits, flags) =
        known.fold((0, PolicyFlags::empty()), |(bits, flags), &(bit, flag)| (bits | bit, flags | flag));
    let number = mode & !bits;
    let modes = [
        (raw::MPOL_DEFAULT, PolicyMode::Default),
        (raw::MPOL_PREFERRED, PolicyMode::Preferred),
        (raw::MPOL_BIND, PolicyMode::Bind),
        (raw::MPOL_INTERLEAVE, PolicyMode::Interleave),
        (raw::MPOL_LOCAL, PolicyMode::Local),
        (raw::MPOL_PREFERRED_MANY, PolicyMode::PreferredMany),
        (raw::MPOL_WEIGHTED_INTERLEAVE, PolicyMode::WeightedInterleave),
    ];
    let mode = modes.iter().find(|(known, _)| *known as u32 == number).ok_or(Errno::EINVAL)?.1;
    let balances = matches!(mode, PolicyMode::Bind | PolicyMode::PreferredMany);
    if flags.contains(PolicyFlags::STATIC | PolicyFlags::RELATIVE)
        || flags.contains(PolicyFlags::BALANCING) && !balances
    {
        return Err(Errno::EINVAL);
    }
    Ok(PolicyRequest { mode, flags, nodes: 0 })
}

/// The treatment of pages that `mbind`'s flags ask for.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown flags; [`Errno::EPERM`] for those that need a privilege: no caller has it.
pub fn misplaced(flags: u32) -> Result<Misplaced, Errno> {
    let (strict, moves, moves_all) = (raw::MPOL_MF_STRICT, raw::MPOL_MF_MOVE, raw::MPOL_MF_MOVE_ALL);
    match flags {
        _ if flags & !(strict | moves | moves_all) != 0 => Err(Errno::EINVAL),
        _ if flags & moves_all != 0 => Err(Errno::EPERM),
        _ if flags & strict == 0 => Ok(Misplaced::Keep),
        _ if flags & moves == 0 => Ok(Misplaced::Refuse),
        _ => Ok(Misplaced::Report),
    }
}

/// Reads a mask of nodes that a program passes as an address and one more than its number of bits. `word_at`
/// reads the 64-bit word at an address of the program. Nodes from 63 on share the last bit of the result.
///
/// # Errors
/// [`Errno::EINVAL`] for a mask of more than a page and for nodes that Linux cannot name; what `word_at`
/// says.
pub fn read_nodes(
    mask: u64,
    max_node: u64,
    mut word_at: impl FnMut(u64) -> Result<u64, Errno>,
) -> Result<u64, Errno> {
    let bits = max_node.wrapping_sub(1);
    if bits == 0 || mask == 0 {
        return Ok(0);
    }
    if bits > PAGE_SIZE as u64 * 8 {
        return Err(Errno::EINVAL);
    }
    let mut nodes = 0;
    // From the end, as Linux reads it: which error comes first depends on it.
    for word in (0..bits.div_ceil(64)).rev() {
        let kept = (bits - word * 64).min(64);
        let read = word_at(mask.wrapping_add(word * 8))? & u64::MAX >> (64 - kept);
        match word {
            0 => nodes |= read,
            _ if read == 0 => {}
            _ if word * 64 >= MAX_NODES => return Err(Errno::EINVAL),
            _ => nodes |= 1 << 63,
        }
    }
    Ok(nodes)
}
