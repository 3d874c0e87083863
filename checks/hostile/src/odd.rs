//! Values at the edges of every type.

use interleaf::units::{CpuId, CpuMask, Level, NodeId, NodeMask, Order, PageSize, Pfn, PfnRange, PhysAddr};
use interleaf::units::{MAX_CPUS, VirtAddr, Vpn, VpnRange};

/// Addresses, lengths and numbers: the edges of pages, tables, address spaces and words.
pub const NUMBERS: [u64; 24] = [
    0,
    1,
    0xfff,
    0x1000,
    0x1001,
    0x1ff_f000,
    0x20_0000,
    0x4000_0000,
    0x7f_ffff_f000,
    0x7fff_ffff_e000,
    0x7fff_ffff_f000,
    0x7fff_ffff_ffff,
    0x8000_0000_0000,
    0xffff_7fff_ffff_ffff,
    0xffff_8000_0000_0000,
    1 << 52,
    (1 << 52) - 1,
    1 << 63,
    (1 << 63) - 1,
    u64::MAX - 0xfff,
    u64::MAX - 0x1000,
    u64::MAX - 1,
    u64::MAX,
    0x5555_5555_5555_5555,
];

/// Page numbers.
pub fn vpns() -> impl Iterator<Item = Vpn> + Clone {
    NUMBERS.into_iter().flat_map(|number| [Vpn(number), Vpn(number >> 12)])
}

/// Frame numbers.
pub fn pfns() -> impl Iterator<Item = Pfn> + Clone {
    NUMBERS.into_iter().flat_map(|number| [Pfn(number), Pfn(number >> 12)])
}

/// Virtual addresses.
pub fn virt_addrs() -> impl Iterator<Item = VirtAddr> + Clone {
    NUMBERS.into_iter().map(VirtAddr)
}

/// Physical addresses.
pub fn phys_addrs() -> impl Iterator<Item = PhysAddr> + Clone {
    NUMBERS.into_iter().map(PhysAddr)
}

/// Page ranges, inverted ones too.
pub fn vpn_ranges() -> impl Iterator<Item = VpnRange> + Clone {
    vpns().flat_map(|start| vpns().map(move |end| VpnRange { start, end }))
}

/// Frame ranges, inverted ones too.
pub fn pfn_ranges() -> impl Iterator<Item = PfnRange> + Clone {
    pfns().flat_map(|start| pfns().map(move |end| PfnRange { start, end }))
}

/// Orders of blocks.
pub fn orders() -> impl Iterator<Item = Order> + Clone {
    [0, 1, 9, 10, 11, 18, 51, 52, 63, 64, 127, 255].into_iter().map(Order)
}

/// CPUs, most of which no machine has.
pub fn cpus() -> impl Iterator<Item = CpuId> + Clone {
    let most = MAX_CPUS as u32;
    [0, 1, 2, 63, 64, most - 1, most, most + 1, u32::MAX / 2, u32::MAX].into_iter().map(CpuId)
}

/// Words for as many CPUs as any machine has.
pub type AllWords = [u64; MAX_CPUS / 64];

/// Sets of CPUs.
pub fn cpu_masks() -> impl Iterator<Item = CpuMask<AllWords>> {
    let words = [0, 1, u64::MAX];
    words.into_iter().map(|word| CpuMask::from_words([word; MAX_CPUS / 64]))
}

/// Nodes, most of which no machine has.
pub fn nodes() -> impl Iterator<Item = NodeId> + Clone {
    [0, 1, 7, 31, 63, 64, 127, 254, 255].into_iter().map(NodeId)
}

/// Sets of nodes.
pub fn node_masks() -> impl Iterator<Item = NodeMask> + Clone {
    [0, 1, 2, 1 << 63, u64::MAX].into_iter().map(NodeMask::from_bits)
}

/// Levels of tables.
pub const LEVELS: [Level; 5] = [Level::Pte, Level::Pmd, Level::Pud, Level::P4d, Level::Pgd];

/// Sizes of leaves.
pub const PAGE_SIZES: [PageSize; 3] = [PageSize::Base, PageSize::Huge, PageSize::Giant];
