//! Plain values: arithmetic at the edges of words, inverted ranges, CPUs and nodes that no machine has.

use crate::call;
use crate::odd::{self, LEVELS, NUMBERS, PAGE_SIZES};
use interleaf::units::{Access, CpuId, CpuMask, Level, NodeMask, Order, PageSize, Pfn, PfnRange, PhysAddr};
use interleaf::units::{VirtAddr, Vpn, VpnRange};

/// Calls every function of the floor.
pub fn run() {
    addresses();
    page_numbers();
    frame_numbers();
    ranges();
    sizes();
    cpus();
    nodes();
}

fn addresses() {
    for addr in odd::virt_addrs() {
        call!(VirtAddr::vpn, addr);
        call!(VirtAddr::offset, addr);
        call!(VirtAddr::is_page_aligned, addr);
        for bytes in NUMBERS {
            call!(VirtAddr::checked_add, addr, bytes);
        }
    }
    for addr in odd::phys_addrs() {
        call!(PhysAddr::pfn, addr);
        call!(PhysAddr::offset, addr);
    }
    for access in [Access::Read, Access::Write, Access::Execute] {
        call!(Access::needs, access);
    }
}

fn page_numbers() {
    for page in odd::vpns() {
        call!(Vpn::addr, page);
        for pages in NUMBERS {
            call!(Vpn::add, page, pages);
        }
        for level in LEVELS {
            let slot = call!(Level::index, level, page).expect("every page has a slot");
            assert!(slot < Level::ENTRIES, "slot {slot} of {page:?} at {level:?}");
        }
    }
}

fn frame_numbers() {
    for frame in odd::pfns() {
        call!(Pfn::addr, frame);
        for frames in NUMBERS {
            call!(Pfn::add, frame, frames);
        }
        for order in odd::orders() {
            call!(Pfn::is_aligned, frame, order);
        }
    }
}

fn ranges() {
    for range in odd::vpn_ranges() {
        call!(VpnRange::len_bytes, range);
        let len = call!(VpnRange::len, range).expect("every range has a length");
        assert_eq!(call!(VpnRange::is_empty, range), Some(len == 0), "{range:?} has {len}");
        let other = VpnRange { start: range.end, end: range.start };
        let both = call!(VpnRange::intersect, range, other).expect("every pair has an intersection");
        assert!(both.len() <= len, "{both:?} is part of {range:?}");
        let made = call!(VpnRange::new, range.start, range.end).expect("any two numbers make a range");
        assert_eq!(made.len(), len, "{made:?} is {range:?}");
        call!(VpnRange::covers, range, other);
        call!(VpnRange::overlaps, range, other);
        call!(VpnRange::contains, range, range.start);
        call!(VpnRange::contains, range, range.end);
    }
    for range in odd::pfn_ranges() {
        let len = call!(PfnRange::len, range).expect("every range has a length");
        assert_eq!(call!(PfnRange::is_empty, range), Some(len == 0), "{range:?} has {len}");
        let other = PfnRange { start: range.end, end: range.start };
        let both = call!(PfnRange::intersect, range, other).expect("every pair has an intersection");
        assert!(both.len() <= len, "{both:?} is part of {range:?}");
        let made = call!(PfnRange::new, range.start, range.end).expect("any two numbers make a range");
        assert_eq!(made.len(), len, "{made:?} is {range:?}");
        call!(PfnRange::covers, range, other);
        call!(PfnRange::overlaps, range, other);
        call!(PfnRange::contains, range, range.start);
        call!(PfnRange::contains, range, range.end);
    }
    for start in odd::virt_addrs() {
        for len in NUMBERS {
            if let Some(range) = call!(VpnRange::from_bytes, start, len).flatten() {
                assert!(range.start <= range.end, "{start:?} and {len:#x} bytes gave {range:?}");
            }
        }
    }
}

fn sizes() {
    for level in LEVELS {
        call!(Level::above, level);
        call!(Level::below, level);
        call!(Level::entry_shift, level);
        call!(Level::entry_pages, level);
        call!(Level::table_pages, level);
        call!(Level::leaf_size, level);
    }
    for size in PAGE_SIZES {
        call!(PageSize::bytes, size);
        call!(PageSize::level, size);
        call!(PageSize::order, size);
        call!(PageSize::pages, size);
    }
    for order in odd::orders() {
        call!(Order::frames, order);
        call!(Order::bytes, order);
    }
}

fn cpus() {
    for cpu in odd::cpus() {
        call!(CpuId::index, cpu);
        for mask in odd::cpu_masks() {
            let mut changed = mask.clone();
            call!(CpuMask::contains, &mask, cpu);
            call!(CpuMask::insert, &mut changed, cpu);
            call!(CpuMask::remove, &mut changed, cpu);
        }
        let first: Option<CpuMask<[u64; 3]>> = call!(CpuMask::first, cpu.0);
        first.into_iter().for_each(|mask| check_mask(&mask));
    }
    odd::cpu_masks().for_each(|mask| check_mask(&mask));
    let mut mask = call!(CpuMask::from_words, [u64::MAX; 2]).expect("a set");
    assert_eq!(call!(CpuMask::words, &mask), Some(&[u64::MAX; 2][..]));
    call!(CpuMask::words_mut, &mut mask).expect("words").fill(0);
    call!(CpuMask::as_mask_mut, &mut mask).expect("a set").insert(CpuId(128));
    assert!(call!(CpuMask::as_mask, &mask).expect("a set").is_empty());
    assert_eq!(call!(CpuMask::new), Some(mask));
    let none: &CpuMask = &CpuMask::from_words([]);
    check_mask(none);
}

fn check_mask(mask: &CpuMask) {
    let count = call!(CpuMask::count, mask).expect("a set has a size");
    let listed = call!(CpuMask::iter, mask).expect("a set can be listed").count();
    assert_eq!(count as usize, listed);
    assert_eq!(call!(CpuMask::is_empty, mask), Some(count == 0));
}

fn nodes() {
    for mask in odd::node_masks() {
        call!(NodeMask::bits, mask);
        for node in odd::nodes() {
            call!(NodeMask::contains, mask, node);
            call!(NodeMask::of, node);
            call!(NodeMask::with, mask, NodeMask::ALL);
        }
    }
    for bits in NUMBERS {
        call!(NodeMask::from_bits, bits);
    }
}
