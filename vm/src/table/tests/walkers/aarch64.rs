//! VMSAv8-64 stage 1, 4 KiB granule, 48-bit addresses, with hardware updates of the access flag and dirty
//! state (TCR.HA and TCR.HD), as the Arm ARM's section D8.3 says. One root stands for both translation table
//! bases.

/// As the other walkers: see `riscv`. A translation, permission or access flag fault ends in `None`.
pub fn walk(
    levels: u32,
    root: u64,
    address: u64,
    access: u8,
    user: bool,
    load: &dyn Fn(u64) -> u64,
) -> Option<(u64, u64, u64)> {
    assert_eq!(levels, 4, "levels 0 to 3");
    if !matches!(address >> 48, 0 | 0xffff) {
        return None;
    }
    let mut table = root;
    for level in 0..4 {
        let shift = 12 + 9 * (3 - level);
        let at = table + (address >> shift & 0x1ff) * 8;
        let descriptor = load(at);
        let output = descriptor & 0x0000_ffff_ffff_f000;
        match (descriptor & 0b11, level) {
            (0b11, 0..=2) => {
                // APTable, UXNTable, PXNTable: no restriction for what lies below.
                if descriptor >> 59 != 0 {
                    return None;
                }
                table = output;
            }
            (0b01, 1 | 2) | (0b11, 3) => {
                let offset = (1 << shift) - 1;
                // Below the output address of a block there are zeros.
                if output & offset != 0 {
                    return None;
                }
                let may = permissions(descriptor, access, user);
                let marked = if access == b'w' { descriptor & !(1 << 7) } else { descriptor };
                return may.then_some((output | address & offset, at, marked | 1 << 10));
            }
            _ => return None,
        }
    }
    None
}

/// AP, UXN and PXN, with DBM: a store to a page that is read-only and has DBM set makes it writable.
fn permissions(descriptor: u64, access: u8, user: bool) -> bool {
    let bit = |n: u32| descriptor >> n & 1 == 1;
    let (at_el0, read_only, dbm) = (bit(6), bit(7), bit(51));
    let writable = !read_only || dbm;
    if user && !at_el0 {
        return false;
    }
    match access {
        b'r' => true,
        b'w' => writable,
        _ if user => !bit(54),
        // Memory that EL0 may write is never executed at EL1.
        _ => !(bit(53) || at_el0 && writable),
    }
}
