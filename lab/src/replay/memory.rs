//! How much memory a replay may take, and what is said where it needs more.

use crate::os::host_info::HostInfo;
use crate::show::table::grouped;

/// The option that gives a replay more memory.
const OPTION: &str = "--memory";

/// Memory that a replay may take.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// How much, bytes.
    pub bytes: u64,
    /// Whether the user said so.
    is_asked: bool,
}

impl Memory {
    /// That of this machine; without a bound where the host does not say.
    pub fn of_this_machine() -> Memory {
        let bytes = match HostInfo::of_this_machine().memory_bytes {
            0 => u64::MAX,
            bytes => bytes,
        };
        Memory { bytes, is_asked: false }
    }

    /// As much as the user allows, bytes.
    pub fn allowed(bytes: u64) -> Memory {
        Memory { bytes, is_asked: true }
    }

    fn whose(&self) -> String {
        let whose = if self.is_asked { format!("{OPTION} allows") } else { "this machine has".to_string() };
        format!("{} MiB that {whose}", mib(self.bytes))
    }

    /// What is said of a replay that needs so many bytes, and `never` without huge pages.
    pub(super) fn refuse_frames(&self, needs: u64, never: u64) -> String {
        let other = match never < needs {
            true => format!("; with --huge never it needs {} MiB", mib(never)),
            false => String::new(),
        };
        format!(
            "the replay needs {} MiB of memory, more than the {}; {OPTION} {}M allows it{other}",
            mib(needs),
            self.whose(),
            needs.div_ceil(1 << 20),
        )
    }

    /// What is said of a trace of more than `most` events, of which each takes so many bytes.
    pub(super) fn refuse_events(&self, most: u64, bytes_of_event: u64) -> String {
        let all = mib(most.saturating_mul(bytes_of_event));
        format!(
            "there are more than {most} events, and these take {all} MiB, a quarter of the {}; \
             {OPTION} allows more, as in {OPTION} {}M",
            self.whose(),
            (self.bytes >> 20).saturating_mul(2),
        )
    }
}

/// Bytes of the two machines of a replay, of so many frames each.
pub(super) fn of_both(frames: u64) -> u64 {
    frames.saturating_mul(2 * 4096)
}

fn mib(bytes: u64) -> String {
    grouped(i64::try_from(bytes.div_ceil(1 << 20)).unwrap_or(i64::MAX))
}
