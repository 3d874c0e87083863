//! Guest instructions of the smallest operations, exact, compared with Linux and with the bars of this
//! project.
//!
//! The program `cost` prints `count NAME VALUE` for each operation, in ticks of the guest's time-stamp
//! counter; booted with [`Clock::Instructions`](super::Clock) a tick is an instruction. Linux 6.1 was counted
//! by the same operations under the same emulator, mitigations off and huge pages never, so its numbers stand
//! beside ours. Zeroing a frame is what no kernel can avoid: it is counted by itself and taken off the write
//! faults; and so is copying one, of the copy on write. Faults of huge pages are counted in a boot of their
//! own, with huge pages always: base pages are counted with huge pages never.

use super::FaultPath;
use crate::measure::bench::{Bar, Figure};

/// One operation: its figures' names by path, what Linux 6.1 needs, the most that is allowed, and what is
/// taken off.
struct Operation {
    /// What the program calls it.
    name: &'static str,
    locked: &'static str,
    vma_lock: &'static str,
    speculative: &'static str,
    linux: Option<f64>,
    most: Option<f64>,
    less: Option<&'static str>,
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "write_fault",
        locked: "kernel.write_fault_locked",
        vma_lock: "kernel.write_fault_vma_lock",
        speculative: "kernel.write_fault",
        linux: Some(2_790.0),
        most: Some(600.0),
        less: Some("zeroing"),
    },
    Operation {
        name: "read_fault",
        locked: "kernel.read_fault_locked",
        vma_lock: "kernel.read_fault_vma_lock",
        speculative: "kernel.read_fault",
        linux: Some(1_247.0),
        most: Some(400.0),
        less: None,
    },
    Operation {
        name: "unmap_page",
        locked: "kernel.unmap_page_locked",
        vma_lock: "kernel.unmap_page_vma_lock",
        speculative: "kernel.unmap_page",
        linux: Some(1_302.0),
        most: Some(300.0),
        less: None,
    },
    Operation {
        name: "unmap_zero_page",
        locked: "kernel.unmap_zero_page_locked",
        vma_lock: "kernel.unmap_zero_page_vma_lock",
        speculative: "kernel.unmap_zero_page",
        linux: Some(83.0),
        most: None,
        less: None,
    },
    Operation {
        name: "zone_fault",
        locked: "kernel.zone_fault_locked",
        vma_lock: "kernel.zone_fault_vma_lock",
        speculative: "kernel.zone_fault",
        linux: None,
        most: None,
        less: Some("zeroing"),
    },
    Operation {
        name: "zone_unmap_page",
        locked: "kernel.zone_unmap_page_locked",
        vma_lock: "kernel.zone_unmap_page_vma_lock",
        speculative: "kernel.zone_unmap_page",
        linux: None,
        most: None,
        less: None,
    },
    Operation {
        name: "copy_on_write",
        locked: "kernel.copy_on_write_locked",
        vma_lock: "kernel.copy_on_write_vma_lock",
        speculative: "kernel.copy_on_write",
        // Without the 512 steps of its copying.
        linux: Some(3_921.0),
        most: None,
        less: Some("copying_bytes"),
    },
    Operation {
        name: "reuse",
        locked: "kernel.reuse_locked",
        vma_lock: "kernel.reuse_vma_lock",
        speculative: "kernel.reuse",
        linux: Some(1_337.0),
        most: None,
        less: None,
    },
    Operation {
        name: "map_unmap_mib",
        locked: "kernel.map_unmap_mib_locked",
        vma_lock: "kernel.map_unmap_mib_vma_lock",
        speculative: "kernel.map_unmap_mib",
        linux: Some(16_477.0),
        most: Some(4_000.0),
        less: None,
    },
    Operation {
        name: "null_call",
        locked: "kernel.null_call_locked",
        vma_lock: "kernel.null_call_vma_lock",
        speculative: "kernel.null_call",
        linux: Some(327.0),
        most: Some(100.0),
        less: None,
    },
];

const HUGE_OPERATIONS: &[Operation] = &[
    Operation {
        name: "huge_read_fault",
        locked: "kernel.huge_read_fault_locked",
        vma_lock: "kernel.huge_read_fault_vma_lock",
        speculative: "kernel.huge_read_fault",
        linux: None,
        most: Some(450.0),
        less: None,
    },
    Operation {
        name: "huge_write_fault",
        locked: "kernel.huge_write_fault_locked",
        vma_lock: "kernel.huge_write_fault_vma_lock",
        speculative: "kernel.huge_write_fault",
        linux: None,
        most: None,
        less: Some("zeroing_huge"),
    },
    Operation {
        name: "huge_unmap",
        locked: "kernel.huge_unmap_locked",
        vma_lock: "kernel.huge_unmap_vma_lock",
        speculative: "kernel.huge_unmap",
        linux: None,
        most: None,
        less: None,
    },
];

/// The program that counts.
pub const PROGRAM: &str = "cost";
/// Its word for huge pages.
pub const HUGE_WORD: &str = "huge";
/// The unit of every figure.
const UNIT: &str = "instructions";

/// The figures of one boot on `path`, from what it printed.
pub fn figures(path: FaultPath, console: &str) -> Result<Vec<Figure>, String> {
    OPERATIONS.iter().map(|operation| operation.figure(path, console)).collect()
}

/// The figures of one boot on `path` with huge pages always, from what it printed.
pub fn huge_figures(path: FaultPath, console: &str) -> Result<Vec<Figure>, String> {
    HUGE_OPERATIONS.iter().map(|operation| operation.figure(path, console)).collect()
}

impl Operation {
    fn figure(&self, path: FaultPath, console: &str) -> Result<Figure, String> {
        let less = self.less.map_or(Ok(0.0), |name| counted(console, name))?;
        let name = match path {
            FaultPath::Locked => self.locked,
            FaultPath::VmaLock => self.vma_lock,
            FaultPath::Speculative => self.speculative,
        };
        let value = counted(console, self.name)? - less;
        let mut figure = match self.linux {
            Some(linux) => Figure::count_beside(name, value, UNIT, "Linux 6.1", linux),
            None => Figure::count(name, value, UNIT),
        };
        figure.command = "interleaf boot --count".to_string();
        // The yardstick has no bar.
        Ok(match self.most.filter(|_| path != FaultPath::VmaLock) {
            Some(most) => figure.with_bar(Bar::AtMost(most)),
            None => figure,
        })
    }
}

/// The value of the line `count NAME VALUE`. The kernel may print lines of its own before and between.
fn counted(console: &str, name: &str) -> Result<f64, String> {
    let value =
        |line: &str| line.trim().strip_prefix("count ")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    let value: Option<f64> = console.lines().find_map(value);
    value.filter(|v| v.is_finite()).ok_or_else(|| format!("the machine did not count {name}"))
}

#[cfg(test)]
#[path = "tests/count.rs"]
mod tests;
