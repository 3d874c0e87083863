//! QEMU's words, and the kernel's own command line inside of them.

use super::{Accel, Boot, Clock};
use std::ffi::OsString;

/// Most bytes of a kernel's command line.
pub const MOST_BYTES: usize = 1024;
/// Most words of a program.
const MOST_WORDS: usize = 32;

/// Refuses a program's words that the kernel cannot pass on.
pub fn check_words(words: &[String]) -> Result<(), String> {
    if let Some(word) = words.iter().find(|word| word.contains('\0')) {
        return Err(format!("{word:?}: a program's words have no zero bytes"));
    }
    if words.len() > MOST_WORDS {
        return Err(format!("a program gets at most {MOST_WORDS} words, its name among them"));
    }
    let bytes: usize = words.iter().map(|word| encoded(word).len() + 1).sum();
    if bytes > MOST_BYTES / 2 {
        return Err(format!("the program's words take {bytes} bytes, at most {} fit", MOST_BYTES / 2));
    }
    Ok(())
}

/// Refuses an option's value that would fall apart: the kernel's line is split at spaces.
pub fn check_options(options: &[String]) -> Result<(), String> {
    let cannot = |option: &&String| option.chars().any(|c| !c.is_ascii_graphic());
    match options.iter().find(cannot) {
        Some(option) => Err(format!("{option:?}: visible ASCII only, without spaces")),
        None if options.iter().map(|option| option.len() + 1).sum::<usize>() > MOST_BYTES / 4 => {
            Err("the kernel's options are too long".to_string())
        }
        None => Ok(()),
    }
}

/// A word of the program as the kernel's line has it: bytes that are no visible ASCII, and `%`, as `%` and
/// two hexadecimal digits; nothing at all as `%`. The kernel's `core::options` reads it.
fn encoded(word: &str) -> String {
    let encode = |byte: u8| match byte {
        b'%' => "%25".to_string(),
        b if b.is_ascii_graphic() => char::from(b).to_string(),
        b => format!("%{b:02x}"),
    };
    if word.is_empty() { "%".to_string() } else { word.bytes().map(encode).collect() }
}

/// The kernel's command line: its options, then `--`, then the program's arguments.
pub fn kernel_line(boot: &Boot) -> String {
    let mut words = boot.options.clone();
    if let Some(program) = &boot.program {
        words.push("--".to_string());
        words.extend(program.words.iter().map(|word| encoded(word)));
    }
    words.join(" ")
}

/// QEMU's argument for the accelerator. An emulator with more CPUs than the host has cores runs them in
/// turns: a CPU that waits for another yields to it, where host threads would use up their time slices. A
/// flush is a hundred times faster that way.
fn accel_words(accel: Accel, cpus: usize, cores: usize) -> &'static str {
    if accel == Accel::Tcg && cpus > cores { "tcg,thread=single" } else { accel.name() }
}

/// QEMU's arguments.
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
        // The debug console, on port 0xe9: the kernel's lines.
        ["-debugcon", "file:/dev/stderr"],
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
#[path = "tests/line.rs"]
mod tests;
