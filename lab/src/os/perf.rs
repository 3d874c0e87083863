//! Performance events of the kernel: opening them on a task, counting, and the ring buffers that samples
//! arrive in.

use perf_event_open_sys as sys;
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use sys::bindings as raw;

/// What an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// A tracepoint, by its number: one sample each time, with the raw record.
    Tracepoint(u64),
    /// Page faults, one sample each, with the address.
    PageFaults,
    /// Only a count of minor faults resolved.
    CountMinor,
    /// Only a count of major faults resolved.
    CountMajor,
}

/// Whether kernel mode is watched too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// User mode only, which needs no privilege.
    User,
    /// Both.
    All,
}

/// One event on one task and CPU, inherited by every task that it makes, enabled when it next executes a
/// program.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
}

impl PerfEvent {
    /// Opens an event on `pid` as it runs on `cpu`, or on any (which then cannot have a ring). `records` asks
    /// for mapping records beside the samples.
    pub fn open(
        watch: Watch,
        modes: Modes,
        pid: u32,
        cpu: Option<u32>,
        records: bool,
    ) -> io::Result<PerfEvent> {
        let mut attr = attributes(watch, modes, records);
        let cpu = cpu.map_or(-1, |cpu| cpu as i32);
        let flags = raw::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `attr` is a whole, initialised attribute block with its own size in it, and outlives the
        // call.
        let fd = unsafe { sys::perf_event_open(&mut attr, pid as i32, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor, and no other code owns it.
        Ok(PerfEvent { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Lets only records pass that `filter` accepts (the kernel's trace filter language).
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the kernel only reads the terminated string.
        check(unsafe { sys::ioctls::SET_FILTER(self.fd.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }

    /// Sends this event's samples to the ring of another event on the same CPU.
    pub fn redirect_to(&self, ring: &Ring) -> io::Result<()> {
        // SAFETY: both descriptors are open; the kernel keeps the ring alive while an event writes to it.
        check(unsafe { sys::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), ring.event.fd.as_raw_fd()) })
    }

    /// The event's count and the number of its samples that were lost, over all tasks that inherited it.
    pub fn count_and_lost(&self) -> io::Result<(u64, u64)> {
        let mut words = [0u64; 2];
        // SAFETY: the buffer is 16 bytes, and 16 is what we allow to be written.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), 16) };
        match got {
            16 => Ok((words[0], words[1])),
            n if n < 0 => Err(io::Error::last_os_error()),
            n => Err(io::Error::other(format!("an event answered {n} bytes"))),
        }
    }
}

fn attributes(watch: Watch, modes: Modes, records: bool) -> raw::perf_event_attr {
    let (kind, config) = match watch {
        Watch::Tracepoint(id) => (raw::PERF_TYPE_TRACEPOINT, id),
        Watch::PageFaults => (raw::PERF_TYPE_SOFTWARE, raw::PERF_COUNT_SW_PAGE_FAULTS.into()),
        Watch::CountMinor => (raw::PERF_TYPE_SOFTWARE, raw::PERF_COUNT_SW_PAGE_FAULTS_MIN.into()),
        Watch::CountMajor => (raw::PERF_TYPE_SOFTWARE, raw::PERF_COUNT_SW_PAGE_FAULTS_MAJ.into()),
    };
    let always = raw::PERF_SAMPLE_TID | raw::PERF_SAMPLE_TIME;
    let mut attr = raw::perf_event_attr::default();
    attr.type_ = kind;
    attr.size = size_of::<raw::perf_event_attr>() as u32;
    attr.config = config;
    attr.read_format = raw::PERF_FORMAT_LOST.into();
    match watch {
        Watch::Tracepoint(_) => attr.sample_type = (always | raw::PERF_SAMPLE_RAW).into(),
        Watch::PageFaults => attr.sample_type = (always | raw::PERF_SAMPLE_ADDR).into(),
        Watch::CountMinor | Watch::CountMajor => {}
    }
    if attr.sample_type != 0 {
        attr.__bindgen_anon_1.sample_period = 1;
        attr.__bindgen_anon_2.wakeup_watermark = 256 << 10;
        attr.set_watermark(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
    }
    attr.set_inherit(1);
    attr.set_disabled(1);
    attr.set_enable_on_exec(1);
    attr.set_exclude_kernel(u64::from(modes == Modes::User));
    attr.set_exclude_hv(u64::from(modes == Modes::User));
    attr.set_mmap(records.into());
    attr.set_mmap2(records.into());
    attr.set_mmap_data(records.into());
    attr
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The ring that an event's samples arrive in.
#[derive(Debug)]
pub struct Ring {
    event: PerfEvent,
    map: NonNull<u8>,
    data_bytes: usize,
    tail: u64,
}

// SAFETY: the ring owns its mapping and its event; nothing in it belongs to the thread that made it.
unsafe impl Send for Ring {}

const PAGE_BYTES: usize = 4096;

impl Ring {
    /// Maps a ring of `data_bytes` (a power of two, at least a page) for `event`.
    pub fn map(event: PerfEvent, data_bytes: usize) -> Result<Ring, (PerfEvent, io::Error)> {
        assert!(data_bytes.is_power_of_two() && data_bytes >= PAGE_BYTES, "a ring of {data_bytes} bytes");
        let (len, rights) = (data_bytes + PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that Rust knows of.
        let map =
            unsafe { libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, event.fd.as_raw_fd(), 0) };
        match NonNull::new(map.cast::<u8>()) {
            Some(map) if map.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Ring { event, map, data_bytes, tail: 0 })
            }
            _ => Err((event, io::Error::last_os_error())),
        }
    }

    /// The event whose samples these are.
    pub fn event(&self) -> &PerfEvent {
        &self.event
    }

    /// Bytes of the ring that samples can use.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Hands every record that has arrived to `each`, oldest first, then gives the space back to the kernel.
    /// Returns how many bytes there were. A record whose size is impossible ends the drain with an error.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<u64> {
        let (head, start) = (self.head(), self.tail);
        let mut record = Vec::new();
        while self.tail < head {
            let mut size = [0; 2];
            self.copy(self.tail + 6..self.tail + 8, head, &mut size);
            let size = usize::from(u16::from_le_bytes(size));
            if size < 8 || size as u64 > head - self.tail {
                return Err(io::Error::other(format!("a record of {size} bytes in the kernel's ring")));
            }
            record.resize(size, 0);
            self.copy(self.tail..self.tail + size as u64, head, &mut record);
            each(&record);
            self.tail += size as u64;
        }
        self.set_tail();
        Ok(head - start)
    }

    /// Where the kernel writes next. Acquire: pairs with the kernel's release of `data_head`, so the records
    /// below it are whole.
    fn head(&self) -> u64 {
        let page = self.map.as_ptr().cast::<raw::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is this structure for as long as the mapping lives, which is
        // as long as `self`; the field is aligned, and only ever written by the kernel in one store.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }.load(Ordering::Acquire)
    }

    /// Tells the kernel how far we have read. Release: pairs with the kernel's read of `data_tail` before it
    /// writes over the space.
    fn set_tail(&self) {
        let page = self.map.as_ptr().cast::<raw::perf_event_mmap_page>();
        // SAFETY: as in `head`; this field is written by us alone.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) }.store(self.tail, Ordering::Release);
    }

    /// Copies the bytes at these ring positions, around the end if need be. `head` was read before.
    ///
    /// # Panics
    /// Where they do not lie between tail and head, or are more or fewer than `into` has room for.
    fn copy(&self, from: Range<u64>, head: u64, into: &mut [u8]) {
        let inside = self.tail <= from.start && from.start <= from.end && from.end <= head;
        let fits = from.end - from.start == into.len() as u64 && into.len() <= self.data_bytes;
        assert!(inside && fits, "{from:?} is read of a ring that holds {}..{head}", self.tail);
        let at = (from.start & (self.data_bytes as u64 - 1)) as usize;
        let first = into.len().min(self.data_bytes - at);
        // SAFETY: by the assertion and the minimum, both parts lie within the data pages, which follow the
        // first page; and between tail and head, where the kernel does not write.
        unsafe {
            let data = self.map.as_ptr().add(PAGE_BYTES);
            ptr::copy_nonoverlapping(data.add(at), into.as_mut_ptr(), first);
            ptr::copy_nonoverlapping(data, into.as_mut_ptr().add(first), into.len() - first);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made, which nothing else refers to.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.data_bytes + PAGE_BYTES) };
    }
}

/// Waits until one of `rings` is filled to its wakeup mark, or for `timeout_ms`.
pub fn wait_for_any(rings: &[Ring], timeout_ms: i32) {
    let entry = |r: &Ring| libc::pollfd { fd: r.event.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut list: Vec<_> = rings.iter().map(entry).collect();
    // SAFETY: the list is ours, and its length is the one we say. An early return only makes the caller look
    // early.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as u64, timeout_ms) };
}
