use super::*;

#[test]
fn a_pinned_thread_runs_on_one_cpu_and_an_unpinned_one_where_it_did() {
    std::thread::spawn(|| {
        let before = allowed().unwrap();
        let last = *before.last().unwrap();
        let pinned = pin(last).unwrap();
        assert_eq!(allowed().unwrap(), [last]);
        drop(pinned);
        assert_eq!(allowed().unwrap(), before);
    })
    .join()
    .unwrap();
}

#[test]
fn a_cpu_that_does_not_exist_is_refused() {
    assert!(pin(libc::CPU_SETSIZE as usize - 1).is_err());
    assert!(pin(usize::MAX).is_err());
}
