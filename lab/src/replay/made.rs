//! Programs made up, of any number of events: what a replay costs is asked of them.

use crate::trace::{
    Access, Call, Cause, Event, Fault, Footer, Header, Host, Image, Kind, Layout, Mapping, Mode, ProcessExit,
    Sys, TraceWriter,
};
use std::io;
use std::sync::Arc;

const PID: u32 = 10;
const PAGE: u64 = 4096;
const TEXT: u64 = 0x40_0000;
const LOADER: u64 = 0x7000_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const READ: u64 = 1;
const WRITE: u64 = 2;
/// `MAP_PRIVATE | MAP_ANONYMOUS`.
const ANONYMOUS: u64 = 0x22;
/// Pages of a mapping that goes again.
const LOOP_PAGES: u64 = 4;
/// Mappings that stay, of a thousand events, where some do.
const STAY_OF_1000: usize = 65;

/// A program, ready to be written or replayed.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its header.
    pub header: Header,
    /// Its events.
    pub events: Vec<Event>,
}

/// A program of about `events` events that maps four pages, writes to each, forbids one to be written, and
/// unmaps them, again and again.
pub fn loops(events: usize) -> Made {
    let mut maker = Maker::default();
    while maker.events.len() < events {
        maker.turn();
    }
    maker.made()
}

/// The same beside mappings that stay, and cannot be joined: 65 of a thousand events make one, 65 000 of a
/// million.
pub fn beside_living(events: usize) -> Made {
    let mut maker = Maker::default();
    while maker.events.len() < events {
        if maker.living.len() * 1000 < maker.events.len() * STAY_OF_1000 {
            maker.stay();
        } else {
            maker.turn();
        }
    }
    maker.made()
}

impl Made {
    /// The trace.
    ///
    /// # Errors
    /// The format cannot hold it.
    pub fn written(&self) -> io::Result<Vec<u8>> {
        let mut writer = TraceWriter::new(Vec::new(), &self.header)?;
        self.events.iter().try_for_each(|event| writer.event(event))?;
        Ok(writer.finish(Footer::default())?.0)
    }
}

/// A program being made.
#[derive(Default)]
struct Maker {
    events: Vec<Event>,
    /// Rights of the mappings that stay, a page each, downwards from the loader.
    living: Vec<u64>,
    time_ns: u64,
    random: u64,
}

impl Maker {
    /// Where mappings end that are made next.
    fn top(&self) -> u64 {
        LOADER - self.living.len() as u64 * PAGE
    }

    /// Maps, writes to and unmaps some pages.
    fn turn(&mut self) {
        let (len, top) = (LOOP_PAGES * PAGE, self.top());
        let at = top - len;
        self.call(Sys::Mmap, [0, len, READ | WRITE, ANONYMOUS, u64::MAX, 0], at as i64);
        (0..LOOP_PAGES).for_each(|page| self.fault(at + page * PAGE, Access::Write));
        self.call(Sys::Mprotect, [at, PAGE, READ, 0, 0, 0], 0);
        self.call(Sys::Munmap, [at, len, 0, 0, 0, 0], 0);
    }

    /// Maps a page that stays and touches it. Neighbours differ in their rights.
    fn stay(&mut self) {
        let is_written = self.living.len().is_multiple_of(2);
        let (rights, access) = if is_written { (READ | WRITE, Access::Write) } else { (READ, Access::Read) };
        let at = self.top() - PAGE;
        self.call(Sys::Mmap, [0, PAGE, rights, ANONYMOUS, u64::MAX, 0], at as i64);
        self.fault(at, access);
        self.living.push(rights);
    }

    fn call(&mut self, sys: Sys, args: [u64; 6], result: i64) {
        let start_ns = self.time_ns;
        let call =
            Call { sys, args, result: Some(result), start_ns, end_ns: start_ns, file: None, inode: None };
        self.push(Kind::Call(call));
    }

    fn fault(&mut self, address: u64, access: Access) {
        self.push(Kind::Fault(Fault { address, access, mode: Mode::User, cause: Cause::Absent }));
    }

    /// As irregular in time as what was recorded: a trace that repeats itself is refused.
    fn push(&mut self, kind: Kind) {
        self.events.push(Event { time_ns: self.time_ns, pid: PID, tid: PID, kind });
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.time_ns += 500 + (self.random >> 48);
    }

    fn made(mut self) -> Made {
        let start = image(Vec::new());
        let stays = self.living.iter().enumerate().rev().map(|(at, &rights)| {
            let start = LOADER - (at as u64 + 1) * PAGE;
            match rights & WRITE != 0 {
                true => mapping(start, 1, "rw-p", "", "rd wr mr mw me ac"),
                false => mapping(start, 1, "r--p", "", "rd mr mw me"),
            }
        });
        let end = image(stays.collect());
        self.push(Kind::Exit(ProcessExit { status: 0, image: Some(Arc::new(end)) }));
        let host = Host { page_bytes: PAGE, memory_bytes: 1 << 34, ..Host::default() };
        let command = vec!["made".to_string()];
        Made {
            header: Header { command, pid: PID, host, image: start, ..Header::default() },
            events: self.events,
        }
    }
}

fn image(between: Vec<Mapping>) -> Image {
    let mut mappings = vec![mapping(TEXT, 1, "r-xp", "/made", "rd ex")];
    mappings.extend(between);
    mappings.push(mapping(LOADER, 1, "r--p", "/loader", "rd"));
    mappings.push(mapping(STACK - 2 * PAGE, 4, "rw-p", "[stack]", "rd wr gd ac"));
    let layout = Layout { start_brk: 0x60_0000, start_stack: STACK, ..Layout::default() };
    Image { program: "/made".into(), called: "made".into(), layout, mappings }
}

fn mapping(start: u64, pages: u64, rights: &str, name: &str, flags: &str) -> Mapping {
    Mapping {
        start,
        end: start + pages * PAGE,
        rights: rights.into(),
        device: "00:00".into(),
        inode: u64::from(name.starts_with('/')),
        name: name.into(),
        flags: flags.into(),
        ..Mapping::default()
    }
}
