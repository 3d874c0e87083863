//! Intel EPT as the SDM's section "EPT Translation Mechanism" says, with accessed and dirty flags enabled,
//! without execute-only translations and mode-based execute control.

/// As the other walkers: see `riscv`. An EPT violation or misconfiguration ends in `None`. All accesses are
/// the guest's.
pub fn walk(
    levels: u32,
    root: u64,
    address: u64,
    access: u8,
    _user: bool,
    load: &dyn Fn(u64) -> u64,
) -> Option<(u64, u64, u64)> {
    assert_eq!(levels, 4, "a walk length of 4");
    if address >> 48 != 0 {
        return None;
    }
    let (mut table, mut rights) = (root, 0b111);
    for level in (0..4).rev() {
        let at = table + (address >> (12 + 9 * level) & 511) * 8;
        let entry = load(at);
        // A violation: bits 2:0 are all 0. A misconfiguration: writable or executable, and not readable.
        if entry & 0b001 == 0 {
            return None;
        }
        rights &= entry & 0b111;
        let frame = entry & 0x000f_ffff_ffff_f000;
        if level > 0 && entry >> 7 & 1 == 0 {
            // Bits 6:3 of an entry that references a table are reserved.
            if entry >> 3 & 0b1111 != 0 {
                return None;
            }
            table = frame;
            continue;
        }
        let offset = (1 << (12 + 9 * level)) - 1;
        let is_type = matches!(entry >> 3 & 7, 0 | 1 | 4 | 5 | 6);
        // Bit 7 is reserved at the top; below the address of a large page there are zeros.
        if level == 3 || !is_type || frame & offset != 0 {
            return None;
        }
        let needed = match access {
            b'r' => 0b001,
            b'w' => 0b010,
            _ => 0b100,
        };
        let marked = entry | 1 << 8 | u64::from(access == b'w') << 9;
        return (rights & needed != 0).then_some((frame | address & offset, at, marked));
    }
    None
}
