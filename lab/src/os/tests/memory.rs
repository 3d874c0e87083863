use super::*;

#[test]
fn an_open_part_reads_as_zeroes_and_keeps_what_is_written() {
    let memory = Reservation::new(1 << 20).unwrap();
    memory.open(4096..8192).unwrap();
    memory.populate(4096..8192).unwrap();
    // SAFETY: within the part that was opened; no other code has a pointer to it.
    let byte = unsafe { &mut *memory.start().add(5000).as_ptr() };
    assert_eq!(*byte, 0);
    *byte = 7;
    assert_eq!(*byte, 7);
}

#[test]
fn a_part_outside_is_refused() {
    let memory = Reservation::new(8192).unwrap();
    assert!(memory.open(4096..12288).is_err());
    assert!(Reservation::new(0).is_err());
}
