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
