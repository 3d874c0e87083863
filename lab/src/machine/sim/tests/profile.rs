//! Profiles are read as they are written, and wrong ones are refused in one line.

use super::*;

#[test]
fn every_profile_of_the_repository_is_read_and_written_again() {
    for name in Profile::names() {
        let profile = Profile::built_in(name).unwrap();
        assert_eq!(Profile::parse(&profile.to_string()), Ok(profile.clone()), "{name}");
        assert!(!profile.about.is_empty() && profile.costs.gap > 0, "{name}");
        assert!(profile.guesses().any(|guess| guess == "ipi.deliver"), "{name}");
    }
    assert!(Profile::built_in("nothing").is_none());
}

#[test]
fn a_wrong_profile_is_refused_with_its_line() {
    let text = Profile::built_in("cascade-lake").unwrap().to_string();
    let with = |from: &str, to: &str| Profile::parse(&text.replace(from, to)).unwrap_err();
    assert_eq!(with("fence ", "fense "), "line 5: no number is called fense");
    assert!(with("6.4 ns", "6.4 us").ends_with("fence is in ns"));
    assert!(with("6.4 ns", "-6.4 ns").ends_with("fence: -6.4 is no such number"));
    assert!(with("24 cpus", "0 cpus").contains("cpus.cluster: 0 is no such number"));
    assert!(with("16 lines", "65 lines").contains("store.buffer: 65 is no such number"));
    let twice = format!("{text}\nfence 6 ns twice");
    assert!(Profile::parse(&twice).unwrap_err().ends_with("fence is there twice"));
    let without: String =
        text.lines().filter(|line| !line.starts_with("wake ")).map(|l| l.to_string() + "\n").collect();
    assert!(Profile::parse(&without).unwrap_err().starts_with("wake is missing (ns)"));
    let no_source = text.lines().map(|l| if l.starts_with("fence") { "fence 6.4 ns" } else { l });
    let no_source = no_source.collect::<Vec<_>>().join("\n");
    assert!(Profile::parse(&no_source).unwrap_err().contains("fence has no source"));
}

#[test]
fn communication_is_what_cpus_do_to_each_other() {
    let costs = Profile::built_in("epyc-milan").unwrap().costs;
    let double = costs.with_communication((2, 1));
    assert_eq!((double.remote, double.ipi_send, double.wake_latency), (394_000, 300_000, 6_000_000));
    assert_eq!((double.gap, double.update, double.pause), (costs.gap, costs.update, costs.pause));
    assert_eq!((double.zero_warm, double.node_cpus), (costs.zero_warm, costs.node_cpus));
    assert_eq!(double.with_communication((1, 2)), costs);
}
