use super::*;

#[test]
fn a_round_maps_what_it_touches_and_leaves_nothing() {
    let mut space = Space::new(3, Frames::Stack);
    space.areas.map(area(3), &mut space.memory, &mut space.table, false).unwrap();
    space.touch(Space::START + PAGE);
    let (frame, flags, _) = space.table.query(VirtAddr::from(Space::START + PAGE)).unwrap();
    assert_eq!(frame.as_usize(), DATA);
    assert!(flags.contains(MappingFlags::WRITE));
    assert_eq!(space.memory.frames[0].0[..2], [1, 0]);
    space.touch(Space::START);
    space.touch(Space::START + 2 * PAGE);
    space.areas.unmap(Space::START, 3 * PAGE, &mut space.memory, &mut space.table).unwrap();
    assert!(space.areas.is_empty());
    assert!(space.table.query(VirtAddr::from(Space::START)).is_err());
    assert!((0..3).all(|_| space.memory.take() < 3));
}

fn area(nr_pages: usize) -> MemoryArea<Lazy> {
    let flags = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::USER;
    MemoryArea::new(Space::START, nr_pages * PAGE, flags, Lazy)
}
