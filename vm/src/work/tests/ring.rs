//! The records of an ordered queue, without threads.

use super::*;

fn cpus(of: &[u32]) -> CpuMask<[u64; 1]> {
    let mut mask = CpuMask::new();
    of.iter().for_each(|&cpu| mask.insert(CpuId(cpu)));
    mask
}

#[test]
fn records_end_in_any_order_and_are_served_in_order() {
    let mut ring = Ring::<char, _, 3>::new(cpus(&[0, 1]), cpus(&[1, 2]));
    for item in ['a', 'b', 'c'] {
        ring.submit(item, CpuId(2)).unwrap();
    }
    assert_eq!(ring.submit('d', CpuId(2)), Err('d'));
    let (a, b) = (ring.begin().unwrap(), ring.begin().unwrap());
    ring.end(b.0, Some(b.1));
    assert_eq!(ring.turn(), None);
    ring.end(a.0, Some(a.1));
    assert_eq!(ring.turn(), Some(Some(CpuId(2))));
    assert_eq!(ring.serve(), Some('a'));
    assert_eq!(ring.turn(), None, "one serial part at a time");
    ring.served();
    assert_eq!((ring.turn(), ring.serve()), (Some(Some(CpuId(2))), Some('b')));
    ring.served();
    assert_eq!(ring.turn(), None, "c has not begun");
    assert_eq!(ring.begin(), Some((2, 'c')));
    ring.end(2, None);
    assert_eq!((ring.lost, ring.turn().is_some(), ring.serve()), (1, true, None));
    ring.served();
    assert!(ring.finished() == ring.submitted() && ring.begin().is_none());
}

#[test]
fn a_cpu_that_is_not_in_the_set_is_replaced_by_one_of_the_set() {
    let mut ring = Ring::<u32, _, 4>::new(cpus(&[0]), cpus(&[1, 3]));
    (0..4).for_each(|item| ring.submit_done(item, CpuId(item)).unwrap());
    let mut turn = || {
        let turn = ring.turn();
        ring.serve();
        ring.served();
        turn.flatten().map(|cpu| cpu.0)
    };
    assert_eq!([turn(), turn(), turn(), turn()], [Some(1), Some(1), Some(1), Some(3)]);
    ring.serial = CpuMask::new();
    ring.submit_done(4, CpuId(3)).unwrap();
    assert_eq!(ring.turn(), Some(None));
}
