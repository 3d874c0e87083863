//! The kernel's sample records, byte by byte.
//!
//! Every record has a header of eight bytes: type, misc, size. A sample (as we ask for them) goes on with
//! process, thread and time, then either the address of a fault or the tracepoint's own record, whose layout
//! is read from tracefs.

use super::Refusal;
use super::raw::{Raw, What};
use super::tracepoint::{Field, Tracepoint};
use crate::trace::calls::{Sys, is_kept};
use crate::trace::event::{Access, CacheChange, Cached, Cause, Fault, Inode, Mode, NewTask};
use perf_event_open_sys::bindings as kernel;

/// What one record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Something happened.
    Raw(Raw),
    /// A task calls ptrace, which is no event of a trace.
    Ptrace,
    /// Number of records that did not fit the ring buffer.
    Lost(u64),
    /// Nothing of interest.
    Nothing,
}

/// What samples look like.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Records of tracepoints.
    Tracepoints(Box<Points>),
    /// Addresses of page faults, nothing else: the samples of an unprivileged recording.
    Addresses,
}

/// The tracepoints of a recording, and where their fields lie.
#[derive(Clone, Debug)]
pub struct Points {
    user: (u16, Field, Field),
    kernel: (u16, Field, Field),
    enter: (u16, Field, Field),
    leave: (u16, Field, Field),
    task: (u16, Field, Field),
    /// Where the kernel has them: pages that come into the page cache, and that leave it.
    cache: Option<[CachePoint; 2]>,
}

/// A tracepoint of the page cache.
#[derive(Clone, Debug)]
struct CachePoint {
    id: u16,
    cached: Cached,
    device: Field,
    inode: Field,
    first: Field,
    order: Field,
}

impl Points {
    /// The tracepoint numbers: faults in user mode, in kernel mode, calls entered, calls left, tasks made;
    /// then, where there are any, those of the page cache.
    pub fn ids(&self) -> Vec<u64> {
        let always = [self.user, self.kernel, self.enter, self.leave, self.task].map(|(id, ..)| id);
        let cache = self.cache.iter().flatten().map(|point| point.id);
        always.into_iter().chain(cache).map(u64::from).collect()
    }

    /// Whether the kernel tells of the page cache.
    pub fn follow_page_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Looks everything up in tracefs.
    pub fn find() -> Result<Points, Refusal> {
        Self::of(Tracepoint::find)
    }

    /// The same where `described` knows each tracepoint.
    pub fn of(described: impl Fn(&str) -> Result<Tracepoint, Refusal>) -> Result<Points, Refusal> {
        let find = |name: &str, first: &str, second: &str| {
            let point = described(name)?;
            Ok::<_, Refusal>((point.id, point.field(first)?, point.field(second)?))
        };
        Ok(Points {
            user: find("exceptions/page_fault_user", "address", "error_code")?,
            kernel: find("exceptions/page_fault_kernel", "address", "error_code")?,
            enter: find("raw_syscalls/sys_enter", "id", "args")?,
            leave: find("raw_syscalls/sys_exit", "id", "ret")?,
            task: find("task/task_newtask", "pid", "clone_flags")?,
            // A kernel without them is recorded all the same: what its cache had is not known then.
            cache: cache_points(&described).ok(),
        })
    }
}

fn cache_points(
    described: &impl Fn(&str) -> Result<Tracepoint, Refusal>,
) -> Result<[CachePoint; 2], Refusal> {
    let find = |name: &str, cached| {
        let point = described(name)?;
        let field = |name| point.field(name);
        let (device, inode, first, order) =
            (field("s_dev")?, field("i_ino")?, field("index")?, field("order")?);
        Ok::<_, Refusal>(CachePoint { id: point.id, cached, device, inode, first, order })
    };
    Ok([
        find("filemap/mm_filemap_add_to_page_cache", Cached::Added)?,
        find("filemap/mm_filemap_delete_from_page_cache", Cached::Removed)?,
    ])
}

/// The number of ptrace, which is watched for and not kept.
pub(super) const PTRACE: u64 = libc::SYS_ptrace as u64;

const TASK_AT: usize = 8;
const TIME_AT: usize = 16;
const BODY_AT: usize = 24;
const MMAP2_DEVICE_AT: usize = 40;
const MMAP2_INODE_AT: usize = 48;
const MMAP2_NAME_AT: usize = 72;
const SAMPLE_ID_BYTES: usize = 16;

/// Reads one record.
pub fn decode(samples: &Samples, record: &[u8]) -> Result<Said, String> {
    match number(record, 0, 4)? as u32 {
        kernel::PERF_RECORD_SAMPLE => sample(samples, record),
        kernel::PERF_RECORD_MMAP2 => mapped(record),
        kernel::PERF_RECORD_LOST => Ok(Said::Lost(number(record, 16, 8)?)),
        kernel::PERF_RECORD_LOST_SAMPLES => Ok(Said::Lost(number(record, 8, 8)?)),
        kernel::PERF_RECORD_THROTTLE => Ok(Said::Lost(1)),
        _ => Ok(Said::Nothing),
    }
}

fn sample(samples: &Samples, record: &[u8]) -> Result<Said, String> {
    let what = match samples {
        Samples::Addresses => {
            let (access, mode, cause) = (Access::Unknown, Mode::User, Cause::Unknown);
            Some(What::Fault(Fault { address: number(record, BODY_AT, 8)?, access, mode, cause }))
        }
        Samples::Tracepoints(points) => {
            let size = number(record, BODY_AT, 4)? as usize;
            let body = record.get(BODY_AT + 4..).and_then(|b| b.get(..size));
            let body = body.ok_or("a tracepoint's record is cut")?;
            if calls_ptrace(points, body)? {
                return Ok(Said::Ptrace);
            }
            tracepoint(points, body)?
        }
    };
    let (pid, tid) = (number(record, TASK_AT, 4)? as u32, number(record, TASK_AT + 4, 4)? as u32);
    let raw = |what| Raw { time_ns: 0, pid, tid, what };
    let time_ns = number(record, TIME_AT, 8)?;
    Ok(what.map_or(Said::Nothing, |what| Said::Raw(Raw { time_ns, ..raw(what) })))
}

fn tracepoint(points: &Points, body: &[u8]) -> Result<Option<What>, String> {
    let field = |f: Field| number(body, f.offset, f.size.min(8));
    let id = number(body, 0, 2)? as u16;
    Ok(match id {
        id if id == points.user.0 => {
            Some(What::Fault(fault(field(points.user.1)?, field(points.user.2)?, Mode::User)))
        }
        id if id == points.kernel.0 => {
            Some(What::Fault(fault(field(points.kernel.1)?, field(points.kernel.2)?, Mode::Kernel)))
        }
        id if id == points.enter.0 => enter(body, field(points.enter.1)?, points.enter.2)?,
        id if id == points.leave.0 => {
            let result = field(points.leave.2)? as i64;
            Sys::from_number(field(points.leave.1)?).map(|sys| What::Leave(sys, result))
        }
        id if id == points.task.0 => {
            let (tid, flags) = (field(points.task.1)? as u32, field(points.task.2)?);
            Some(What::Task(NewTask { tid, flags }))
        }
        other => {
            let point = points.cache.iter().flatten().find(|point| point.id == other);
            let point =
                point.ok_or_else(|| format!("a record of tracepoint {other}, which was not asked for"))?;
            let inode = Inode { device: field(point.device)? as u32, number: field(point.inode)? };
            let (first, order) = (field(point.first)?, field(point.order)?);
            // A folio has less than 2^32 pages, or the record is not one.
            let pages = 1 << order.min(31);
            Some(What::Cache(CacheChange { inode, first, pages, cached: point.cached }))
        }
    })
}

fn calls_ptrace(points: &Points, body: &[u8]) -> Result<bool, String> {
    let (id, number_at, _) = points.enter;
    Ok(number(body, 0, 2)? == u64::from(id)
        && number(body, number_at.offset, number_at.size.min(8))? == PTRACE)
}

fn enter(body: &[u8], call: u64, args_at: Field) -> Result<Option<What>, String> {
    let Some(sys) = Sys::from_number(call) else { return Ok(None) };
    let mut args = [0; 6];
    for (i, arg) in args.iter_mut().enumerate() {
        *arg = number(body, args_at.offset + 8 * i, 8)?;
    }
    Ok(is_kept(sys, &args).then_some(What::Enter(sys, args)))
}

/// What the processor's error code says (bits: 0 present, 1 write, 4 fetch).
fn fault(address: u64, code: u64, mode: Mode) -> Fault {
    let access = match (code >> 4 & 1, code >> 1 & 1) {
        (1, _) => Access::Execute,
        (_, 1) => Access::Write,
        _ => Access::Read,
    };
    let cause = if code & 1 == 1 { Cause::Protection } else { Cause::Absent };
    Fault { address, access, mode, cause }
}

fn mapped(record: &[u8]) -> Result<Said, String> {
    let end = record.len().saturating_sub(SAMPLE_ID_BYTES);
    let name = record.get(MMAP2_NAME_AT..end).ok_or("a mapping's record is cut")?;
    let name = String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or(name));
    if !name.starts_with('/') || name.starts_with("//") {
        return Ok(Said::Nothing);
    }
    let (pid, tid) = (number(record, TASK_AT, 4)? as u32, number(record, TASK_AT + 4, 4)? as u32);
    let part = |at| number(record, at, 4).map(|word| word as u32);
    let inode = number(record, MMAP2_INODE_AT, 8)?;
    let inode =
        (inode != 0).then_some(Inode::of_device(part(MMAP2_DEVICE_AT)?, part(MMAP2_DEVICE_AT + 4)?, inode));
    let what = What::Mapped(crate::trace::codec::fit_name(&name).to_string(), inode);
    Ok(Said::Raw(Raw { time_ns: number(record, end + 8, 8)?, pid, tid, what }))
}

/// A little-endian number of `size` bytes (at most 8) at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, String> {
    let from = bytes.get(at..at + size).ok_or_else(|| format!("a record of {} bytes is cut", bytes.len()))?;
    let mut word = [0; 8];
    word[..size].copy_from_slice(from);
    Ok(u64::from_le_bytes(word))
}

#[cfg(test)]
#[path = "tests/decode.rs"]
mod tests;
