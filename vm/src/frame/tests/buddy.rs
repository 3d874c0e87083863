//! Runs of frames in a batch.

use super::*;

#[test]
fn a_run_is_frames_in_order_with_one_mark() {
    let words = |frames: &[(u64, Init)]| {
        run_length(&frames.iter().map(|&(p, i)| pack((Pfn(p), i))).collect::<std::vec::Vec<_>>())
    };
    let (dirty, zeroed) = (Init::Dirty, Init::Zeroed);
    assert_eq!(words(&[(7, dirty)]), 1);
    assert_eq!(words(&[(7, dirty), (8, dirty), (9, dirty), (11, dirty)]), 3);
    assert_eq!(words(&[(7, dirty), (6, dirty), (5, dirty), (6, dirty)]), 3);
    assert_eq!(words(&[(7, dirty), (8, zeroed)]), 1);
    assert_eq!(words(&[(7, dirty), (7, dirty)]), 1);
}
