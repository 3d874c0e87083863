use super::*;
use crate::boot::image as files;
use crate::os::lacking;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn only_the_status_that_the_guest_asks_for_is_a_run() {
    let limit = Duration::from_secs(300);
    assert_eq!(runs(shell("exit 85"), limit), Ok(()));
    let refused = runs(shell("echo >&2; echo >&2 'kvm: no such thing'; exit 1"), limit);
    assert_eq!(refused, Err("QEMU cannot use it: kvm: no such thing".into()));
    for script in ["exit 0", "exit 33", "kill -6 $$"] {
        let said = runs(shell(script), limit).unwrap_err();
        assert!(said.starts_with("QEMU ended with ") && said.lines().count() == 1, "{script}: {said}");
    }
    assert!(runs(Command::new("/no/such/qemu"), limit).unwrap_err().starts_with("QEMU: "));
}

#[test]
fn a_guest_that_does_not_come_to_its_end_is_ended() {
    let said = runs(shell("exec sleep 1000"), Duration::from_millis(200)).unwrap_err();
    assert!(said.contains("count to twenty million in 0.2 s"), "{said}");
}

#[test]
fn the_guest_counts_and_ends_where_it_is_translated() {
    let Some(qemu) = files::qemu() else {
        return lacking::note("the_guest_counts_and_ends_where_it_is_translated", "qemu-system-x86_64");
    };
    let firmware = Firmware::written().unwrap();
    let mut command = Command::new(qemu);
    command.args(["-accel", "tcg", "-M", "q35", "-m", "64M", "-display", "none", "-nodefaults"]);
    command.args(["-no-user-config", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.arg("-bios").arg(&firmware.0);
    assert_eq!(runs(command, Duration::from_secs(300)), Ok(()));
    let path = firmware.0.clone();
    drop(firmware);
    assert!(!path.exists());
}
