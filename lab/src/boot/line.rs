//! QEMU's words, and the kernel's own command line inside of them.

use super::{Accel, Boot, Clock};
use std::ffi::OsString;

/// Most bytes of a kernel's command line.
pub const MOST_BYTES: usize = 1024;
/// Most words of a program.
const MOST_WORDS: usize = 32;

/// Refuses a word that the kernel's command line cannot carry: it is cut at spaces, and has no quotes.
pub fn check_words(words: &[String]) -> Result<(), String> {
    let cannot = |word: &&String| word.is_empty() || word.chars().any(|c| !c.is_ascii_graphic());
    if let Some(word) = words.iter().find(cannot) {
        return Err(format!("{word:?}: a program's words are of visible ASCII, without spaces"));
    }
    if words.len() > MOST_WORDS {
        return Err(format!("a program gets at most {MOST_WORDS} words, its name among them"));
    }
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    if bytes > MOST_BYTES / 2 {
        return Err(format!("the program's words have {bytes} bytes, at most {} fit", MOST_BYTES / 2));
    }
    Ok(())
}

/// What the kernel is told: its options, then `--`, then the program's words.
pub fn kernel_line(boot: &Boot) -> String {
    let mut words = boot.options.clone();
    if let Some(program) = &boot.program {
        words.push("--".to_string());
        words.extend(program.words.iter().cloned());
    }
    words.join(" ")
}

/// QEMU's words for who executes the instructions. An emulator with more CPUs than the host has cores takes
/// turns: a CPU that waits for another gives it its turn, where threads of the host would use up their time
/// slices. A flush is a hundred times faster so.
fn accel_words(accel: Accel, cpus: usize, cores: usize) -> &'static str {
    if accel == Accel::Tcg && cpus > cores { "tcg,thread=single" } else { accel.name() }
}

/// What QEMU is told.
pub fn qemu_words(boot: &Boot) -> Vec<OsString> {
    let (cpus, memory) = (boot.cpus.to_string(), boot.memory.to_string());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Not promised by the host: a machine may have more than the host has, as long as it does not touch it.
    let ram = format!("memory-backend-ram,id=ram,size={memory},reserve=off");
    let cpu = match boot.accel {
        Accel::Tcg => "max",
        Accel::Kvm => "host",
    };
    let mut words: Vec<OsString> = [
        ["-accel", accel_words(boot.accel, boot.cpus, cores)],
        ["-M", "q35,memory-backend=ram"],
        ["-object", &ram],
        ["-cpu", cpu],
        ["-smp", &cpus],
        ["-m", &memory],
        ["-display", "none"],
        ["-serial", "stdio"],
        ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"],
    ]
    .concat()
    .into_iter()
    .chain(["-nodefaults", "-no-user-config", "-no-reboot"])
    .map(OsString::from)
    .collect();
    if boot.clock == Clock::Instructions {
        words.extend(["-icount", "shift=0"].map(OsString::from));
    }
    if let Some(plugin) = &boot.plugin {
        words.extend(["-plugin", plugin].map(OsString::from));
    }
    words.extend(["-kernel".into(), boot.kernel.clone().into_os_string()]);
    if let Some(program) = &boot.program {
        words.extend(["-initrd".into(), program.file.clone().into_os_string()]);
    }
    words.extend(["-append".into(), kernel_line(boot).into()]);
    words
}

#[cfg(test)]
mod tests {
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
    fn words_that_would_fall_apart_are_refused() {
        for word in ["", "two words", "a\tb", "a\nb", "\u{7f}", "ä"] {
            assert!(check_words(&[word.to_string()]).is_err(), "{word:?}");
        }
        assert!(check_words(&vec!["x".to_string(); MOST_WORDS]).is_ok());
        assert!(check_words(&vec!["x".to_string(); MOST_WORDS + 1]).is_err());
        assert!(check_words(&["x".repeat(MOST_BYTES)]).is_err());
        assert!(check_words(&["-n".to_string(), "a=b,\"c\"".to_string()]).is_ok());
    }
}
