//! States of frame records, through every transition from every state, and watermarks.

use crate::odd::NUMBERS;
use crate::{call, odd};
use interleaf::frame::{FrameState, Init, Kind, Priority, Watermark};
use interleaf::units::Order;
use std::collections::HashSet;

const KINDS: [Kind; 9] = [
    Kind::Reserved,
    Kind::Free,
    Kind::Cached,
    Kind::Taken,
    Kind::Table,
    Kind::Slab,
    Kind::User,
    Kind::Object,
    Kind::Zero,
];

/// Calls every function of the module.
pub fn run() {
    for kind in KINDS {
        call!(Kind::is_counted, kind);
    }
    for frames in NUMBERS {
        let watermark =
            call!(Watermark::for_frames, frames).unwrap_or(Watermark { min: frames, low: 0, high: 0 });
        for free in NUMBERS {
            for priority in [Priority::NoWait, Priority::Normal, Priority::Reserve] {
                call!(Watermark::allows, watermark, free, priority);
            }
        }
    }
    let mut states = vec![FrameState::RESERVED, FrameState::TAKEN_FRAME, FrameState::USER_FRAME];
    states.extend([true, false].iter().filter_map(|&lazyfree| call!(FrameState::part, lazyfree)));
    for init in [Init::Dirty, Init::Zeroed] {
        states.extend(call!(FrameState::cached, init));
        for order in odd::orders() {
            states.extend(
                [0, 1, 15, 16, 255].map(|zone| call!(FrameState::free, zone, order, init)).iter().flatten(),
            );
            states.extend(call!(FrameState::taken, order));
            states.extend(call!(FrameState::hugetlb, order, init));
        }
    }
    let mut seen = HashSet::new();
    while let Some(state) = states.pop() {
        // Refcounts make the number of states large: the first few of each are enough.
        if seen.len() < 3000 && seen.insert(format!("{state:?}")) {
            look_at(state);
            states.extend(next(state));
        }
    }
    assert!(seen.len() > 50);
}

fn look_at(state: FrameState) {
    call!(FrameState::kind, state);
    call!(FrameState::order, state);
    call!(FrameState::refcount, state);
    call!(FrameState::init, state);
    call!(FrameState::is_exclusive, state);
    call!(FrameState::is_attached, state);
    call!(FrameState::is_lazyfree, state);
    call!(FrameState::is_dirty, state);
    call!(FrameState::may_lie_inside, state);
    call!(FrameState::is_hugetlb, state);
    call!(FrameState::restores, state);
    for zone in [0, 1, 15, 16, 255] {
        call!(FrameState::is_free_block, state, zone, Order(255));
    }
}

fn next(state: FrameState) -> Vec<FrameState> {
    let mut next: Vec<_> = KINDS.into_iter().map(|kind| call!(FrameState::becomes, state, kind)).collect();
    next.push(call!(FrameState::dirtied, state));
    next.push(call!(FrameState::retired, state));
    next.push(call!(FrameState::unretired, state));
    next.push(call!(FrameState::relinquished, state));
    next.push(call!(FrameState::gotten, state));
    next.push(call!(FrameState::gotten_to_pin, state, true));
    next.push(call!(FrameState::gotten_to_pin, state, false));
    next.push(call!(FrameState::pinned, state));
    next.push(call!(FrameState::put, state));
    next.push(call!(FrameState::unpinned, state));
    call!(FrameState::pincount, state);
    next.push(call!(FrameState::clear_exclusive, state));
    next.push(call!(FrameState::set_exclusive, state));
    next.push(call!(FrameState::split, state));
    next.push(call!(FrameState::restoring, state));
    next.push(call!(FrameState::attached, state));
    next.push(call!(FrameState::detached, state));
    next.push(call!(FrameState::with_lazyfree, state, true));
    next.push(call!(FrameState::with_lazyfree, state, false));
    next.into_iter().flatten().flatten().collect()
}
