//! Which setting of huge pages a trace tells.

use super::*;
use crate::trace::Host;

fn recorded(settings: &[(&str, &str)]) -> HugeSetting {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let settings = settings.iter().map(|(name, text)| (format!("{folder}/{name}"), text.to_string()));
    let host = Host { settings: settings.collect(), ..Host::default() };
    HugeSetting::recorded(&Header { host, ..Header::default() })
}

#[test]
fn the_policy_is_the_one_in_brackets_and_that_of_the_size_goes_first() {
    use HugePolicy::*;
    let policy = |settings: &[(&str, &str)]| recorded(settings).policy;
    assert_eq!(policy(&[]), Never);
    for (text, expected) in [
        ("always madvise [never]", Never),
        ("always [madvise] never", Madvise),
        ("[always] madvise never", Always),
    ] {
        assert_eq!(policy(&[("enabled", text)]), expected);
    }
    let all = ("enabled", "[always] madvise never");
    let of_size =
        |text| policy(&[("hugepages-64kB/enabled", "[never]"), ("hugepages-2048kB/enabled", text), all]);
    assert_eq!(of_size("always [inherit] madvise never"), Always);
    assert_eq!(of_size("always inherit madvise [never]"), Never);
    assert_eq!(recorded(&[("use_zero_page", "0")]).zero, ZeroPagePolicy::None);
    assert!(recorded(&[all]).is_recorded());
}

#[test]
fn sizes_between_have_their_own_policy_or_inherit_that_of_all() {
    let sizes = recorded(&[
        ("enabled", "always [madvise] never"),
        ("hugepages-16kB/enabled", "[always] inherit madvise never"),
        ("hugepages-64kB/enabled", "always [inherit] madvise never"),
        ("hugepages-1024kB/enabled", "always inherit madvise [never]"),
        ("hugepages-2048kB/enabled", "[always] inherit madvise never"),
    ]);
    let policies = |setting: HugeSetting| [2, 4, 8].map(|order| setting.sizes().policy(Order(order)));
    use MthpPolicy::{Always, Madvise, Never};
    assert_eq!((sizes.policy, policies(sizes)), (HugePolicy::Always, [Always, Madvise, Never]));
    // Another policy is inherited; the recorded one, asked for, changes nothing.
    assert_eq!(policies(sizes.with_policy(HugePolicy::Never)), [Always, Never, Never]);
    assert_eq!(policies(sizes.with_policy(HugePolicy::Always)), [Always, Madvise, Never]);
    assert!(recorded(&[]).sizes().is_never());
}

#[test]
fn a_policy_of_shared_memory_is_taken_where_the_library_has_it_and_named_where_not() {
    let text = |chosen: &str| {
        let words = ["always", "within_size", "advise", "never", "deny", "force"];
        let word = |&word: &&str| if word == chosen { format!("[{word}]") } else { word.to_string() };
        words.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    let header = |name: &str, text: String| {
        let settings = vec![(format!("/sys/kernel/mm/transparent_hugepage/{name}"), text)];
        Header { host: Host { settings, ..Host::default() }, ..Header::default() }
    };
    use SharedHugePolicy::{Advise, Always, Never};
    for (chosen, policy) in [("always", Always), ("advise", Advise), ("never", Never)] {
        let header = header("shmem_enabled", text(chosen));
        assert_eq!(HugeSetting::recorded(&header).shared, policy);
        assert!(settings_without_policy(&header).is_empty());
    }
    for chosen in ["within_size", "deny", "force"] {
        let header = header("shmem_enabled", text(chosen));
        assert_eq!(HugeSetting::recorded(&header).shared, Never);
        assert_eq!(settings_without_policy(&header), [format!("shmem_enabled is {}", text(chosen))]);
    }
    // A size that the library does not have.
    let of_size = |text: &str| settings_without_policy(&header("hugepages-8kB/enabled", text.into()));
    assert_eq!((of_size("[always] never").len(), of_size("always [never]").len()), (1, 0));
}
