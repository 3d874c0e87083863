//! The division of jobs, as arithmetic.

use super::*;
use std::sync::Mutex;
use std::vec;
use std::vec::Vec;

fn divide(range: Range<u64>, align: u64, min_chunk: u64) -> Partition {
    Partition::new(&job(range, align, min_chunk)).unwrap()
}

fn job(range: Range<u64>, align: u64, min_chunk: u64) -> Job<'static, ()> {
    Job::new(range, ()).align(align).min_chunk(min_chunk)
}

#[test]
fn grains_cover_a_range_that_begins_and_ends_anywhere() {
    for (start, end, align) in
        (0..20).flat_map(|s| (s + 1..40).flat_map(move |e| (1..9).map(move |a| (s, e, a))))
    {
        let partition = divide(start..end, align, 1);
        let mut at = start;
        for grain in 0..partition.count {
            let piece = partition.range(&(start..end), &(grain..grain + 1));
            assert!(
                piece.start == at
                    && !piece.is_empty()
                    && (piece.end == end || piece.end.is_multiple_of(align))
            );
            at = piece.end;
        }
        assert_eq!(at, end);
    }
}

#[test]
fn there_is_the_minimum_for_each_worker() {
    for (count, least) in (1..60).flat_map(|c| (1..=c).map(move |l| (c, l))) {
        let workers = u64::from(divide(0..count, 1, least).max_workers(&job(0..count, 1, least)));
        assert!(workers * least <= count || workers == 1);
        assert!((workers + 1) * least > count);
    }
    let unaligned = job(3..35, 8, 9);
    assert_eq!(Partition::new(&unaligned).unwrap().max_workers(&unaligned), 2);
}

#[test]
fn the_widest_range_and_the_largest_numbers_are_cut_without_overflow() {
    let most = u64::MAX;
    let whole = divide(0..most, 1, 1);
    assert_eq!(whole.range(&(0..most), &(0..whole.count)), 0..most);
    let end = divide(most - 10..most, 64, most);
    assert_eq!((end.count, end.min_chunk), (1, 1));
    assert_eq!(end.range(&(most - 10..most), &(0..1)), most - 10..most);
    assert_eq!(divide(5..6, most, 3).range(&(5..6), &(0..1)), 5..6);
}

#[test]
fn chunks_grow_while_they_are_quick_and_shrink_towards_the_end() {
    assert_eq!([0, 2000, MAX_NS / 2, MAX_NS + 1].map(|ns| next_pace(40, ns, 10)), [5120, 5000, 40, 20]);
    assert_eq!((next_pace(12, MAX_NS * 2, 10), next_pace(12, MAX_NS / 12, 10)), (10, 36));
    assert_eq!([1000, 100, 30, 3].map(|have| chunk_size(have, 0, 200, 10, 2)), [200, 50, 15, 10]);
    assert_eq!([9000, 5].map(|have| chunk_size(have, 0, 5120, 1, 2)), [4500, 10]);
    assert_eq!(chunk_size(u32::MAX, u32::MAX, u32::MAX, 1, 1), u32::MAX);
    assert_eq!([100, 60, 10, 1].map(|due| chunk_size(100, due, 5120, 1, 4)), [75, 45, 25, 25]);
    assert_eq!((chunk_size(30, 100, 5120, 1, 2), chunk_size(1000, 1000, 200, 1, 2)), (30, 200));
}

fn gaps(undone: &[Range<u64>]) -> Vec<Range<u64>> {
    let seen = Mutex::new(Vec::new());
    each_gap(&(10..50), || undone.iter().cloned(), &|gap| seen.lock().unwrap().push(gap));
    seen.into_inner().unwrap()
}

#[test]
fn the_gaps_are_covered_by_no_range() {
    assert_eq!(gaps(&[]), vec![10..50]);
    assert_eq!(gaps(&[10..30, 30..50]), Vec::<Range<u64>>::new());
    assert_eq!(gaps(&[40..50, 10..12, 20..30, 25..25, 0..0]), [12..20, 30..40].to_vec());
    assert_eq!(gaps(&[30..40, 20..30]), [10..20, 40..50].to_vec());
}
