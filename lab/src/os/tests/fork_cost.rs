use super::*;

#[test]
fn a_process_that_forks_again_and_again_says_what_each_time_took() {
    let mut process = ForkingProcess::start(1 << 20).unwrap();
    for _ in 0..3 {
        let cost = process.measure().unwrap();
        assert!(cost.fork > 0 && cost.exit > 0 && cost.unmap_shared > 0, "{cost:?}");
    }
}

#[test]
fn memory_that_the_host_cannot_map_is_an_error() {
    let mut process = ForkingProcess::start(1 << 60).unwrap();
    process.measure().unwrap_err();
}
