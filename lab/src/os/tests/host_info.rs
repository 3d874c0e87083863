//! What the system tells about its CPUs.

use super::*;
use std::path::PathBuf;

/// A folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("interleaf-cpus-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

#[test]
fn what_the_system_tells_of_its_power_is_read() {
    let one = ("cpu0/cpufreq/scaling_governor", "performance\n");
    let other = ("cpu1/cpufreq/scaling_governor", "powersave\n");
    let intel =
        folder("intel", &[one, ("intel_pstate/no_turbo", "1\n"), ("cpuidle/current_driver", "intel_idle\n")]);
    assert_eq!(governor(&intel).as_deref(), Some("performance"));
    assert_eq!((turbo(&intel).as_deref(), idle(&intel).as_deref()), (Some("off"), Some("intel_idle")));
    let mixed = folder("mixed", &[one, other, ("cpufreq/boost", "1\n")]);
    assert_eq!(governor(&mixed).as_deref(), Some("performance and powersave"));
    assert_eq!((turbo(&mixed).as_deref(), idle(&mixed)), (Some("on"), None));
    let other_way = folder("other", &[("intel_pstate/no_turbo", "0\n"), ("cpufreq/boost", "0\n")]);
    assert_eq!(turbo(&other_way).as_deref(), Some("on"), "intel_pstate knows");
    let nothing = folder("nothing", &[]);
    assert_eq!((governor(&nothing), turbo(&nothing), idle(&nothing)), (None, None, None));
    for folder in [intel, mixed, other_way, nothing] {
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn what_is_not_told_is_said_to_be() {
    let here = HostInfo::of_this_machine();
    for told in [&here.governor, &here.turbo, &here.idle] {
        assert!(!told.is_empty() && here.power_line().contains(told.as_str()));
    }
    let (turbo, idle, governor) = (not_told(), not_told(), not_told());
    let silent = HostInfo { governor, turbo, idle, ..here };
    assert_eq!(silent.power_line(), "governor not told, turbo not told, idle states not told");
}
