//! Paging of x86-64 as the SDM's section "4-Level Paging and 5-Level Paging" says, with CR0.WP and EFER.NXE
//! set, and 52 bits of physical address.

/// As the other walkers: see `riscv`. A protected or absent page, and a reserved bit, end in `None`.
pub fn walk(
    levels: u32,
    root: u64,
    address: u64,
    access: u8,
    user: bool,
    load: &dyn Fn(u64) -> u64,
) -> Option<(u64, u64, u64)> {
    let sign = (address as i64) >> (12 + 9 * levels - 1);
    if sign != 0 && sign != -1 {
        return None;
    }
    let (mut table, mut may_write, mut may_user, mut may_execute) = (root, true, true, true);
    for level in (0..levels).rev() {
        let at = table + (address >> (12 + 9 * level) & 511) * 8;
        let entry = load(at);
        if entry & 1 == 0 {
            return None;
        }
        may_write &= entry >> 1 & 1 == 1;
        may_user &= entry >> 2 & 1 == 1;
        may_execute &= entry >> 63 == 0;
        let is_page = entry >> 7 & 1 == 1;
        let frame = entry & 0x000f_ffff_ffff_f000;
        if level > 0 && !is_page {
            // This walker does not set A of tables: the format writes it set.
            if entry >> 5 & 1 == 0 {
                return None;
            }
            table = frame;
            continue;
        }
        // PS is reserved above the entries of 1 GiB; in the last level the bit is PAT.
        if level > 2 {
            return None;
        }
        let offset = (1 << (12 + 9 * level)) - 1;
        // Bit 12 of a large page is PAT; the rest of the offset is reserved.
        if level > 0 && frame & offset & !(1 << 12) != 0 {
            return None;
        }
        let allowed = match access {
            b'r' => true,
            b'w' => may_write,
            _ => may_execute,
        };
        if !allowed || user && !may_user {
            return None;
        }
        let marked = entry | 1 << 5 | u64::from(access == b'w') << 6;
        return Some((frame & !offset | address & offset, at, marked));
    }
    None
}
