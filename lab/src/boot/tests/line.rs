use super::super::Program;
use super::*;

fn boot() -> Boot {
    Boot {
        qemu: "qemu".into(),
        kernel: "/k".into(),
        cpus: 4,
        memory: "1G".parse().unwrap(),
        accel: Accel::Tcg,
        clock: Clock::Host,
        plugin: None,
        options: vec!["path=locked".into()],
        program: None,
        timeout_s: 1,
    }
}

fn after(boot: &Boot, switch: &str) -> Option<String> {
    let words = qemu_words(boot);
    let at = words.iter().position(|w| w == switch)?;
    Some(words.get(at + 1)?.to_str()?.to_string())
}

#[test]
fn the_machine_is_as_asked_for() {
    let boot = boot();
    for (switch, value) in [("-smp", "4"), ("-m", "1024M"), ("-append", "path=locked")] {
        assert_eq!(after(&boot, switch).as_deref(), Some(value));
    }
    assert!(after(&boot, "-object").is_some_and(|ram| ram.contains("size=1024M")));
    assert_eq!((after(&boot, "-initrd"), after(&boot, "-icount")), (None, None));
    let counting = Boot { clock: Clock::Instructions, ..boot };
    assert_eq!(after(&counting, "-icount").as_deref(), Some("shift=0"));
}

#[test]
fn more_cpus_than_cores_take_turns() {
    assert_eq!(accel_words(Accel::Tcg, 2, 2), "tcg");
    assert_eq!(accel_words(Accel::Tcg, 4, 2), "tcg,thread=single");
    assert_eq!(accel_words(Accel::Kvm, 4, 2), "kvm");
}

#[test]
fn a_program_is_the_ramdisk_and_its_words_follow_the_dashes() {
    let program = Program { file: "/dir,odd/p".into(), words: vec!["p".into(), "--".into(), "3".into()] };
    let boot = Boot { program: Some(program), ..boot() };
    assert_eq!(after(&boot, "-initrd").as_deref(), Some("/dir,odd/p"));
    assert_eq!(kernel_line(&boot), "path=locked -- p -- 3");
}

#[test]
fn a_words_bytes_are_kept_whatever_they_are() {
    let words = ["", "two words", "100%", "a\tb", "ä", "a=b,\"c\""].map(str::to_string).to_vec();
    let program = Program { file: "/p".into(), words };
    let boot = Boot { program: Some(program), options: vec![], ..boot() };
    assert_eq!(kernel_line(&boot), "-- % two%20words 100%25 a%09b %c3%a4 a=b,\"c\"");
}

#[test]
fn words_that_cannot_be_passed_on_are_refused() {
    assert!(check_words(&["a\0b".to_string()]).is_err());
    assert!(check_words(&vec!["x".to_string(); MOST_WORDS]).is_ok());
    assert!(check_words(&vec!["x".to_string(); MOST_WORDS + 1]).is_err());
    assert!(check_words(&["x".repeat(MOST_BYTES)]).is_err());
    assert!(check_words(&[" ".repeat(MOST_BYTES / 4)]).is_err());
    assert!(check_words(&["-n".to_string(), "a=b,\"c\"".to_string()]).is_ok());
}

#[test]
fn options_that_would_fall_apart_are_refused() {
    for option in ["selftest=two words", "selftest=a\tb", "selftest=ä"] {
        assert!(check_options(&[option.to_string()]).is_err(), "{option:?}");
    }
    assert!(check_options(&["x".repeat(MOST_BYTES)]).is_err());
    assert!(check_options(&["path=locked".to_string()]).is_ok());
}
