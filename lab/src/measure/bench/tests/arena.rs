use super::*;

#[test]
fn an_arena_is_dirty_and_its_frames_come_in_turn() {
    let mut arena = Arena::new(2 * FRAME_BYTES + 1);
    assert_eq!(arena.nr_frames(), 3);
    assert!(arena.frames().iter().all(|f| f.0 == [0xA5; FRAME_BYTES]));
    let mut next = || std::ptr::from_mut(arena.next_frame()).addr();
    let first = next();
    assert_eq!([next(), next(), next()], [first + FRAME_BYTES, first + 2 * FRAME_BYTES, first]);
    assert_eq!(first % FRAME_BYTES, 0);
}
