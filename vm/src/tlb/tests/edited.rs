//! What a flush names, and what it tells.

use crate::machine::FlushRange;
use crate::tlb::edited::Edited;
use crate::units::{Vpn, VpnRange};

const LEAF: VpnRange = VpnRange::new(Vpn(512), Vpn(1024));

fn one_leaf() -> Edited {
    let mut edited = Edited::default();
    edited.add(LEAF);
    edited.narrow_to(FlushRange::of_leaf(LEAF));
    edited
}

/// Pages and named pages of a flush of it.
fn flush(edited: Edited) -> [(u64, u64); 2] {
    let FlushRange { pages, named, .. } = edited.flush();
    [pages, named].map(|range| (range.start.0, range.end.0))
}

#[test]
fn all_pages_of_a_leaf_are_told_whatever_is_added() {
    assert_eq!(flush(Edited::default()), [(0, 0); 2]);
    assert_eq!(flush(one_leaf()), [(512, 1024), (512, 513)]);
    for (more, pages, named) in [
        ((500, 501), (500, 1024), (500, 513)),
        ((1024, 1026), (512, 1026), (512, 1026)),
        ((1024, 1536), (512, 1536), (512, 1536)),
    ] {
        let mut edited = one_leaf();
        edited.add(VpnRange::new(Vpn(more.0), Vpn(more.1)));
        assert_eq!(flush(edited), [pages, named], "with {more:?}");
    }
}

#[test]
fn what_parts_have_edited_is_told_whole() {
    let mut all = Edited::of(VpnRange::new(Vpn(4), Vpn(5)));
    all.join(one_leaf());
    all.join(Edited::default());
    assert_eq!(flush(all), [(4, 1024), (4, 513)]);
    let mut all = Edited::default();
    all.join(one_leaf());
    assert_eq!(flush(all), [(512, 1024), (512, 513)]);
}
