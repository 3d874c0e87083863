use super::*;
use crate::trace::record::raw::What;

fn at(time_ns: u64) -> Raw {
    Raw { time_ns, pid: 1, tid: 1, what: What::Mapped(String::new(), None) }
}

fn drain(merge: &mut Merge, horizon: u64) -> Vec<u64> {
    std::iter::from_fn(|| merge.pop_before(horizon)).map(|r| r.time_ns).collect()
}

#[test]
fn sources_become_one_order_up_to_the_horizon() {
    let mut merge = Merge::new(3);
    for (source, time) in [(0, 10), (0, 30), (1, 20), (2, 5), (1, 40)] {
        merge.push(source, at(time)).unwrap();
    }
    assert_eq!(drain(&mut merge, 30), [5, 10, 20]);
    assert_eq!(merge.waiting(), 2);
    assert_eq!(drain(&mut merge, u64::MAX), [30, 40]);
}

#[test]
fn a_hair_backwards_inside_a_source_keeps_the_source_s_order() {
    let mut merge = Merge::new(1);
    merge.push(0, at(10)).unwrap();
    merge.push(0, at(9)).unwrap();
    assert_eq!(drain(&mut merge, u64::MAX), [10, 10]);
}

#[test]
fn a_record_that_comes_too_late_is_an_error() {
    let mut merge = Merge::new(2);
    merge.push(0, at(100)).unwrap();
    assert_eq!(drain(&mut merge, u64::MAX), [100]);
    assert_eq!(merge.push(1, at(40)), Err(60));
    assert_eq!(merge.push(0, at(40)), Ok(()), "its own source's order makes it 100");
}
