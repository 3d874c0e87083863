//! Memory policies: mbind's answers, and what a refused call leaves alone.
//!
//! `policy`. Everything here holds on a machine with any number of nodes, and for every caller.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::{Args, EINVAL, Region, Rights};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// MPOL_DEFAULT.
const DEFAULT: usize = 0;
/// MPOL_BIND.
const BIND: usize = 2;
/// MPOL_LOCAL.
const LOCAL: usize = 4;
/// A mode that there is not.
const UNKNOWN: usize = 99;
/// MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES, which exclude each other.
const STATIC_AND_RELATIVE: usize = 0xc000;
/// A flag that there is not.
const NO_FLAG: usize = 1 << 20;
const NO_NODES: [u64; 16] = [0; 16];

fn begin(_: Args) -> u8 {
    let region = granted("mmap", Region::map(8, Rights::WRITE));
    region.write(3, 0, 7);
    let first = nodes(&[0]);
    granted("mbind to node 0", region.bind(BIND, &first, 64, 0));
    granted("mbind of a part", region.part(2, 3).bind(LOCAL, &NO_NODES, 0, 0));
    granted("mbind to the default", region.bind(DEFAULT, &NO_NODES, 0, 0));
    refusals(region, &first);
    holds!(region.read(3, 0) == 7, "a policy changed what a page holds");
    region.write(4, 0, 9);
    holds!(region.read(4, 0) == 9, "a page under a policy does not hold what was written");
    granted("munmap", region.unmap());
    say!("policy: granted and refused as Linux does, and no page changed");
    GOOD
}

fn refusals(region: Region, first: &[u64; 16]) {
    let refused = [
        ("an unknown mode", region.bind(UNKNOWN, first, 64, 0)),
        ("two readings of nodes", region.bind(BIND | STATIC_AND_RELATIVE, first, 64, 0)),
        ("no node to bind to", region.bind(BIND, &NO_NODES, 64, 0)),
        ("nodes for the default", region.bind(DEFAULT, first, 64, 0)),
        ("an unknown flag", region.bind(BIND, first, 64, NO_FLAG)),
    ];
    for (what, answer) in refused {
        holds!(answer == Err(EINVAL), "{what}: {answer:?}");
    }
}

fn nodes(list: &[usize]) -> [u64; 16] {
    let mut mask = NO_NODES;
    list.iter().for_each(|node| mask[node / 64] |= 1 << (node % 64));
    mask
}
