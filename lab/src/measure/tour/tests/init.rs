use super::*;

#[test]
fn the_first_allocation_is_sooner_only_if_it_always_is() {
    let judged = |deferred: &[f64]| is_sooner(&[vec![1000.0, 2000.0], deferred.to_vec(), vec![50.0]]);
    assert_eq!(judged(&[60.0, 100.0]), Verdict::Yes);
    assert_eq!(judged(&[60.0, 150.0]), Verdict::CannotTell);
    assert_eq!(is_sooner(&[vec![1000.0, 2000.0], vec![300.0, 900.0]]), Verdict::No);
    assert_eq!(is_sooner(&[]), Verdict::CannotTell);
}
