//! A calibration is a profile that can be read, whose numbers are those of some machine.

use super::*;

#[test]
fn a_small_calibration_is_a_whole_profile() {
    let profile = match calibrate(&Options::small()) {
        Ok(profile) => profile,
        // A host with one CPU.
        Err(failure) => return assert!(failure.to_string().contains("this host lends one")),
    };
    let read = Profile::parse(&profile.to_string()).unwrap().costs;
    assert!(read.cluster.abs_diff(profile.costs.cluster) <= 50, "files keep a tenth of a nanosecond");
    let Costs { cluster, fence, pause, memory, zero_cold, zero_warm, page_bandwidth, .. } = profile.costs;
    for (name, ps) in [("line", cluster), ("memory", memory), ("cold", zero_cold), ("warm", zero_warm)] {
        assert!((1_000..1_000_000_000).contains(&ps), "{name}: {ps} ps");
    }
    assert!(fence > 100 && pause > 100 && page_bandwidth > 100, "{profile}");
    let guesses: Vec<_> = profile.guesses().collect();
    assert!(guesses.contains(&"line.remote") && !guesses.contains(&"line.cluster"), "{guesses:?}");
}
