use super::*;

#[test]
fn pieces_are_cut_where_calls_begin_and_end() {
    let mut pieces = Pieces::default();
    pieces.map(10..20, false);
    pieces.split(12..14);
    assert_eq!((pieces.len(), pieces.in_range(0..100)), (3, vec![10..12, 12..14, 14..20]));
    pieces.unmap(13..16);
    assert_eq!(pieces.in_range(11..17), [11..12, 12..13, 16..17]);
    pieces.map(11..18, true);
    assert_eq!(pieces.in_range(0..100), [10..11, 11..18, 18..20]);
    assert!(pieces.is_shared(17) && !pieces.is_shared(18) && !pieces.is_shared(20));
    pieces.unmap(0..100);
    assert_eq!(pieces.len(), 0);
}
