//! Decisions about mappings: merge, split, protect and the address search, with neighbours that overlap,
//! ranges that are inverted, and gaps that are none.

use super::vma::odd_attributes;
use crate::odd::{self, NUMBERS, PAGE_SIZES};
use crate::{call, called};
use interleaf::units::{PageSize, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{self, Areas, Change, Direction, Gaps, Placement, Policy, Search, VmaFlags};

/// Calls every function of the module.
pub fn run() {
    changes();
    places();
}

fn changes() {
    let all: Vec<_> = odd_attributes().step_by(7).collect();
    for (nth, one) in all.iter().enumerate() {
        let (prev, next) = (all[nth / 2], all[all.len() - 1 - nth]);
        for (prev, next) in [(None, None), (Some(prev), Some(next)), (Some(*one), Some(*one))] {
            call!(vma::merge, prev, *one, next);
            call!(vma::reusable_anon, prev, one, next);
            for range in [one.range, prev.map_or(one.range, |prev| prev.range)] {
                let inverted = VpnRange { start: range.end, end: range.start };
                for range in [range, inverted, VpnRange { start: Vpn(0), end: Vpn(u64::MAX) }] {
                    let flags = VmaFlags::from_bits_retain(NUMBERS[nth % NUMBERS.len()] as u32);
                    look_at(call!(vma::change, prev, one, next, range, flags));
                    look_at(call!(vma::change_policy, prev, one, next, range, Policy::LOCAL));
                    let protection = call!(vma::protect, prev, one, next, range, flags).flatten();
                    look_at(protection.map(|protection| protection.change));
                    call!(vma::cut, one, range);
                    call!(vma::split, one, range.start);
                }
            }
            call!(vma::joins, one, &prev.unwrap_or(*one));
            let list = [Some(*one), prev, next].into_iter().flatten();
            let _ = call!(vma::check, list);
        }
    }
}

fn look_at(change: Option<Change>) {
    let nothing = Change::NOTHING;
    for change in change.iter().chain([&nothing]) {
        let puts = called!(Change::puts => change.puts().count());
        assert_eq!(puts, call!(Change::nr_puts, change));
        assert!(call!(Change::nr_removes, change) <= Some(3));
        if let Some(vma) = call!(Change::changed, change).flatten() {
            call!(Change::part_of, change, &vma);
        }
    }
    let wrong = Change { changed: usize::MAX, ..nothing };
    call!(Change::changed, &wrong);
}

/// Gaps that are where the search wants none.
struct Lies(Option<Vpn>);

impl Gaps for Lies {
    fn lowest(&self, _: u64, _: VpnRange) -> Option<Vpn> {
        self.0
    }
    fn highest(&self, nr_pages: u64, _: VpnRange) -> Option<Vpn> {
        assert_ne!(nr_pages, 7, "gaps that panic");
        self.0
    }
}

fn places() {
    for user in odd::vpn_ranges().step_by(37) {
        let areas = Areas { user, mmap_base: user.end, legacy_base: user.start };
        for addr in NUMBERS {
            let hint = call!(Areas::hint, &areas, VirtAddr(addr)).flatten();
            for nr_pages in [0, 1, 7, 512, u64::MAX, u64::MAX - 511] {
                let anywhere = call!(Areas::anywhere, &areas, hint, nr_pages).expect("a placement");
                let low = call!(Areas::low, &areas, hint, nr_pages).expect("a placement");
                for placement in [anywhere, low] {
                    find(&placement);
                    let private = call!(Placement::for_private_anonymous, placement).expect("a placement");
                    find(&private);
                }
            }
        }
    }
    let search = Search { window: VpnRange { start: Vpn(9), end: Vpn(1) }, direction: Direction::Down };
    for boundary in PAGE_SIZES {
        for hint in odd::vpns() {
            let searches = [Some(search), None];
            find(&Placement {
                nr_pages: hint.0,
                hint: Some(hint),
                hint_window: search.window,
                boundary,
                searches,
            });
        }
    }
}

fn find(placement: &Placement) {
    for at in [None, Some(Vpn(0)), Some(Vpn(u64::MAX)), placement.hint] {
        call!(vma::place, &Lies(at), placement);
        for size in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
            call!(vma::place_aligned, &Lies(at), placement, size);
        }
    }
}
