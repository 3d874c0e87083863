//! The "Virtual Address Translation Process" of the RISC-V Privileged Architecture, step by step, with Svadu
//! and Svpbmt, without Svnapot.

/// Translates `address` from the table at `root`, for an access `b'r'`, `b'w'` or `b'x'` of user or
/// supervisor code (with SUM clear). Returns the physical address, where the last entry lies, and that entry
/// as the hardware leaves it. `None` is a page fault.
pub fn walk(
    levels: u32,
    root: u64,
    address: u64,
    access: u8,
    user: bool,
    load: &dyn Fn(u64) -> u64,
) -> Option<(u64, u64, u64)> {
    // The bits above must equal the highest translated one.
    let sign = (address as i64) >> (12 + 9 * levels - 1);
    if sign != 0 && sign != -1 {
        return None;
    }
    // Step 1.
    let (mut a, mut i) = (root, levels);
    loop {
        // Step 4: i = i - 1, and a fault below 0.
        i = i.checked_sub(1)?;
        // Step 2.
        let at = a + (address >> (12 + 9 * i) & 0x1ff) * 8;
        let pte = load(at);
        let [v, r, w, x, u] = [0, 1, 2, 3, 4].map(|bit| pte >> bit & 1 == 1);
        let ppn = pte >> 10 & ((1 << 44) - 1);
        let (pbmt, reserved) = (pte >> 61 & 3, pte >> 54 & 0x7f | pte >> 63);
        // Step 3.
        if !v || !r && w || reserved != 0 || pbmt == 3 {
            return None;
        }
        if !r && !x {
            // A pointer: D, A, U and PBMT are reserved.
            if pte >> 4 & 0b1101 != 0 || pbmt != 0 {
                return None;
            }
            a = ppn << 12;
            continue;
        }
        // Step 5: a misaligned superpage.
        if ppn & ((1 << (9 * i)) - 1) != 0 {
            return None;
        }
        // Steps 6 and 7.
        let allowed = match access {
            b'r' => r,
            b'w' => w,
            _ => x,
        };
        if !allowed || u != user {
            return None;
        }
        // Step 9: A, and D on a store.
        let marked = pte | 1 << 6 | u64::from(access == b'w') << 7;
        let offset = (1 << (12 + 9 * i)) - 1;
        return Some((ppn << 12 | address & offset, at, marked));
    }
}
