//! Events as bytes, in blocks that can each be read alone.
//!
//! An event is a head byte (its kind in the low three bits, small facts above), its thread, the time since
//! the event before, and what its kind needs. Inside a block a thread is a small number: the next unused one
//! introduces a new thread, with process and thread number. A fault's address is encoded as the distance from
//! the thread's last one. An image is not in the event: it is the oldest image of the file that no event has
//! taken yet.

use super::bytes::{Cursor, put, put_signed, put_text};
use super::calls::Sys;
use super::event::*;
use super::image::Image;
use std::collections::HashMap;
use std::sync::Arc;

const FAULT: u8 = 0;
const CALL: u8 = 1;
const TASK: u8 = 2;
const EXEC: u8 = 3;
const SIGNAL: u8 = 4;
const EXIT: u8 = 5;
/// From format 2 on.
const FILE: u8 = 6;
/// From format 2 on.
const CACHE: u8 = 7;
const HAS_FIRST: u8 = 1 << 3;
const HAS_SECOND: u8 = 1 << 4;
/// From format 2 on.
const HAS_THIRD: u8 = 1 << 5;
const NAME_MOST_BYTES: usize = 8192;
/// Pages that a file may have: as many as 2^63 bytes are.
const PAGES_MOST: u64 = 1 << 51;

/// State of a block from one event to the next; `numbers` finds a thread in `threads`, and only writing
/// needs it.
#[derive(Default)]
struct Context {
    threads: Vec<Thread>,
    numbers: HashMap<(u32, u32), usize>,
    time_ns: u64,
}

struct Thread {
    pid: u32,
    tid: u32,
    address: u64,
}

/// Collects the events of one block.
#[derive(Default)]
pub struct Encoder {
    context: Context,
    bytes: Vec<u8>,
}

impl Encoder {
    /// Bytes collected.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends `event`; its image, if it has one, is written by the caller.
    pub fn push(&mut self, event: &Event) {
        let out = &mut self.bytes;
        out.push(head(&event.kind));
        let next = self.context.threads.len();
        let at = *self.context.numbers.entry((event.pid, event.tid)).or_insert(next);
        put(out, at as u64);
        if at == next {
            put(out, u64::from(event.pid));
            put(out, u64::from(event.tid));
            self.context.threads.push(Thread { pid: event.pid, tid: event.tid, address: 0 });
        }
        put(out, event.time_ns - self.context.time_ns);
        self.context.time_ns = event.time_ns;
        match &event.kind {
            Kind::Fault(fault) => {
                let thread = &mut self.context.threads[at];
                put_signed(out, fault.address.wrapping_sub(thread.address) as i64);
                thread.address = fault.address;
            }
            Kind::Call(call) => put_call(out, call, event.time_ns),
            Kind::Task(task) => {
                put(out, u64::from(task.tid));
                put(out, task.flags);
            }
            Kind::Exec(_) => {}
            Kind::Signal(signal) => {
                put_signed(out, i64::from(signal.number));
                put_signed(out, i64::from(signal.code));
                put(out, signal.address);
            }
            Kind::Exit(ended) => put_signed(out, i64::from(ended.status)),
            Kind::File(facts) => {
                put_inode(out, facts.inode);
                put(out, facts.len_bytes);
            }
            Kind::Cache(change) => {
                put_inode(out, change.inode);
                put(out, change.first);
                put(out, change.pages);
            }
        }
    }
}

fn put_inode(out: &mut Vec<u8>, inode: Inode) {
    put(out, u64::from(inode.device));
    put(out, inode.number);
}

fn head(kind: &Kind) -> u8 {
    let flags = |first: bool, second: bool| (u8::from(first) * HAS_FIRST) | (u8::from(second) * HAS_SECOND);
    match kind {
        Kind::Fault(f) => FAULT | (f.access as u8) << 3 | (f.mode as u8) << 5 | (f.cause as u8) << 6,
        Kind::Call(call) => {
            let third = u8::from(call.inode.is_some()) * HAS_THIRD;
            CALL | flags(call.result.is_some(), call.file.is_some()) | third
        }
        Kind::Task(_) => TASK,
        Kind::Exec(_) => EXEC,
        Kind::Signal(_) => SIGNAL,
        Kind::Exit(ended) => EXIT | flags(ended.image.is_some(), false),
        Kind::File(facts) => FILE | flags(facts.is_in_memory, false),
        Kind::Cache(change) => CACHE | (change.cached as u8) << 3,
    }
}

fn put_call(out: &mut Vec<u8>, call: &Call, time_ns: u64) {
    put(out, call.sys as u64);
    call.args[..call.sys.arity()].iter().for_each(|&arg| put_signed(out, arg as i64));
    put(out, time_ns - call.start_ns);
    put(out, call.end_ns - time_ns);
    if let Some(result) = call.result {
        put_signed(out, result);
    }
    if let Some(file) = &call.file {
        put_text(out, file);
    }
    call.inode.into_iter().for_each(|inode| put_inode(out, inode));
}

/// Reads the events of one block.
pub struct Decoder<'a> {
    context: Context,
    cursor: Cursor<'a>,
}

impl<'a> Decoder<'a> {
    /// Reads a block's content.
    pub fn new(content: &'a [u8]) -> Decoder<'a> {
        Decoder { context: Context::default(), cursor: Cursor::new(content) }
    }

    /// The next event, or `None` at the block's end. `image` returns the oldest image not taken yet.
    pub fn next(
        &mut self,
        image: &mut impl FnMut() -> Result<Arc<Image>, String>,
    ) -> Result<Option<Event>, String> {
        if self.cursor.is_empty() {
            return Ok(None);
        }
        let head = self.cursor.byte("an event")?;
        let at = self.thread()?;
        let delta = self.cursor.number("a time")?;
        let time_ns = self.context.time_ns.checked_add(delta).ok_or("a time overflows")?;
        self.context.time_ns = time_ns;
        let kind = self.kind(head, at, time_ns, image)?;
        let Thread { pid, tid, .. } = self.context.threads[at];
        Ok(Some(Event { time_ns, pid, tid, kind }))
    }

    fn thread(&mut self) -> Result<usize, String> {
        let at = self.cursor.number("a thread")? as usize;
        let known = self.context.threads.len();
        if at == known {
            let (pid, tid) = (self.cursor.small("a process number")?, self.cursor.small("a thread number")?);
            self.context.threads.push(Thread { pid, tid, address: 0 });
        }
        if at > known { Err(format!("thread {at} of {known}")) } else { Ok(at) }
    }

    fn kind(
        &mut self,
        head: u8,
        at: usize,
        time_ns: u64,
        image: &mut impl FnMut() -> Result<Arc<Image>, String>,
    ) -> Result<Kind, String> {
        let flags = head & !7;
        let allowed = match head & 7 {
            FAULT => !7,
            CALL => HAS_FIRST | HAS_SECOND | HAS_THIRD,
            CACHE => HAS_FIRST | HAS_SECOND,
            EXIT | FILE => HAS_FIRST,
            _ => 0,
        };
        if flags & !allowed != 0 {
            return Err(format!("an event's head is {head:#x}"));
        }
        let cursor = &mut self.cursor;
        Ok(match head & 7 {
            FAULT => {
                let thread = &mut self.context.threads[at];
                thread.address = thread.address.wrapping_add(cursor.signed("an address")? as u64);
                Kind::Fault(fault(head, thread.address)?)
            }
            CALL => Kind::Call(call(cursor, flags, time_ns)?),
            TASK => {
                Kind::Task(NewTask { tid: cursor.small("a new task")?, flags: cursor.number("clone flags")? })
            }
            EXEC => Kind::Exec(Started { image: image()? }),
            SIGNAL => Kind::Signal(Signal {
                number: narrow(cursor.signed("a signal")?)?,
                code: narrow(cursor.signed("a signal's code")?)?,
                address: cursor.number("a signal's address")?,
            }),
            EXIT => {
                let status = narrow(cursor.signed("a status")?)?;
                let image = if flags & HAS_FIRST != 0 { Some(image()?) } else { None };
                Kind::Exit(ProcessExit { status, image })
            }
            FILE => Kind::File(FileFacts {
                inode: inode(cursor)?,
                len_bytes: cursor.number("a file's length")?,
                is_in_memory: flags & HAS_FIRST != 0,
            }),
            _ => Kind::Cache(cache_change(cursor, head)?),
        })
    }
}

fn inode(cursor: &mut Cursor<'_>) -> Result<Inode, String> {
    Ok(Inode { device: cursor.small("a device")?, number: cursor.number("an inode")? })
}

fn cache_change(cursor: &mut Cursor<'_>, head: u8) -> Result<CacheChange, String> {
    let all = [Cached::Found, Cached::Added, Cached::Removed];
    let cached = *all.get(usize::from(head >> 3 & 3)).ok_or_else(|| format!("a page's head is {head:#x}"))?;
    let (inode, first) = (inode(cursor)?, cursor.number("a page of a file")?);
    let pages = cursor.number("a number of pages")?;
    first.checked_add(pages).filter(|&end| end <= PAGES_MOST).ok_or("pages beyond any file")?;
    Ok(CacheChange { inode, first, pages, cached })
}

fn narrow(value: i64) -> Result<i32, String> {
    i32::try_from(value).map_err(|_| format!("{value} does not fit 32 bits"))
}

fn fault(head: u8, address: u64) -> Result<Fault, String> {
    let access = [Access::Read, Access::Write, Access::Execute, Access::Unknown][usize::from(head >> 3 & 3)];
    let mode = [Mode::User, Mode::Kernel][usize::from(head >> 5 & 1)];
    let cause = match head >> 6 {
        0 => Cause::Absent,
        1 => Cause::Protection,
        2 => Cause::Unknown,
        _ => return Err(format!("a fault's head is {head:#x}")),
    };
    Ok(Fault { address, access, mode, cause })
}

fn call(cursor: &mut Cursor<'_>, flags: u8, time_ns: u64) -> Result<Call, String> {
    let number = cursor.number("a call's number")?;
    let sys = Sys::from_number(number).ok_or_else(|| format!("call number {number} is unknown"))?;
    let mut args = [0; 6];
    for arg in &mut args[..sys.arity()] {
        *arg = cursor.signed("an argument")? as u64;
    }
    let before = cursor.number("a call's start")?;
    let after = cursor.number("a call's end")?;
    let start_ns = time_ns.checked_sub(before).ok_or("a call starts before the recording")?;
    let end_ns = time_ns.checked_add(after).ok_or("a call's end overflows")?;
    let result = if flags & HAS_FIRST != 0 { Some(cursor.signed("a result")?) } else { None };
    let file = if flags & HAS_SECOND != 0 {
        Some(cursor.text("a file's name", NAME_MOST_BYTES)?.into())
    } else {
        None
    };
    let inode = if flags & HAS_THIRD != 0 { Some(inode(cursor)?) } else { None };
    Ok(Call { sys, args, result, start_ns, end_ns, file, inode })
}

/// Whether only a trace of format 2 can have such an event.
pub fn is_of_format_2(kind: &Kind) -> bool {
    match kind {
        Kind::File(_) | Kind::Cache(_) => true,
        Kind::Call(call) => call.inode.is_some(),
        _ => false,
    }
}

/// Shortens a file's name to what a trace can hold.
pub fn fit_name(name: &str) -> &str {
    let mut len = name.len().min(NAME_MOST_BYTES);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    &name[..len]
}
