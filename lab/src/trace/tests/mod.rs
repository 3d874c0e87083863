//! The format: what is written comes back, what is damaged is refused.

use super::block::{BlockKind, BlockReader, BlockWriter, VERSION};
use super::bytes::crc64;
use super::*;
use proptest::prelude::*;
use std::sync::Arc;

fn mapping(start: u64, end: u64) -> Mapping {
    Mapping { start, end, rights: "rw-p".into(), device: "00:00".into(), ..Mapping::default() }
}

fn image() -> Image {
    Image { program: "/bin/x".into(), mappings: vec![mapping(0x1000, 0x5000)], ..Image::default() }
}

fn header() -> Header {
    let host = Host { page_bytes: 4096, ..Host::default() };
    Header { command: vec!["x".into()], pid: 7, host, image: image(), ..Header::default() }
}

fn call() -> Call {
    let args = [0, 4096, 3, 0x22, u64::MAX, 0];
    Call {
        sys: Sys::Mmap,
        args,
        result: Some(0x7000_0000),
        start_ns: 90,
        end_ns: 130,
        file: None,
        inode: None,
    }
}

fn inode() -> Inode {
    Inode::of_device(254, 3, 1 << 40)
}

fn cache(cached: Cached) -> Kind {
    Kind::Cache(CacheChange { inode: inode(), first: 1 << 20, pages: 16, cached })
}

fn small_events() -> Vec<Event> {
    let at = |time_ns, kind| Event { time_ns, pid: 7, tid: 7, kind };
    let fault = |address| {
        Kind::Fault(Fault { address, access: Access::Write, mode: Mode::Kernel, cause: Cause::Absent })
    };
    vec![
        at(10, fault(0x1234)),
        at(100, Kind::Call(call())),
        at(100, Kind::Call(Call { file: Some("/lib/z".into()), inode: Some(inode()), ..call() })),
        at(101, Kind::Task(NewTask { tid: 8, flags: NewTask::VM | NewTask::THREAD })),
        Event { time_ns: 120, pid: 7, tid: 8, kind: fault(u64::MAX) },
        at(121, Kind::Signal(Signal { number: 11, code: 1, address: 0x1234 })),
        at(130, Kind::Exec(Started { image: Arc::new(image()) })),
        Event { time_ns: 131, pid: 7, tid: 8, kind: Kind::Exit(ProcessExit { status: 0, image: None }) },
        at(140, Kind::Exit(ProcessExit { status: -1, image: Some(Arc::new(image())) })),
        at(140, Kind::File(FileFacts { inode: inode(), len_bytes: u64::MAX, is_in_memory: true })),
        at(141, cache(Cached::Found)),
        at(141, cache(Cached::Added)),
        at(142, cache(Cached::Removed)),
    ]
}

fn write(events: &[Event]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    events.iter().for_each(|e| writer.event(e).unwrap());
    writer.finish(Footer::default()).unwrap().0
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<Event>, Footer), Damage> {
    TraceReader::new(bytes)?.read_all()
}

#[test]
fn what_is_written_comes_back() {
    let (head, events, footer) = read(&write(&small_events())).unwrap();
    assert_eq!(head, header());
    assert_eq!(events, small_events());
    assert_eq!((footer.events, footer.faults, footer.calls), (13, 2, 2));
}

#[test]
fn many_blocks_and_images_come_back() {
    let mut events = Vec::new();
    for i in 0..60_000u64 {
        let kind = match i % 500 {
            0 => Kind::Exec(Started { image: Arc::new(image()) }),
            _ => Kind::Fault(Fault {
                address: i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                access: Access::Execute,
                mode: Mode::User,
                cause: Cause::Protection,
            }),
        };
        events.push(Event { time_ns: i * 1000, pid: 7, tid: 7 + (i % 9) as u32, kind });
    }
    assert_eq!(read(&write(&events)).unwrap().1, events);
}

#[test]
fn every_flipped_bit_is_refused() {
    let sound = write(&small_events());
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            let damage = read(&bytes).expect_err("a flipped bit was accepted");
            assert!(damage.offset <= at as u64, "bit {bit} of byte {at}: {damage}");
        }
    }
}

#[test]
fn every_cut_is_refused_and_names_its_place() {
    let sound = write(&small_events());
    for len in 0..sound.len() {
        let damage = read(&sound[..len]).expect_err("a cut file was accepted");
        assert!(damage.offset <= len as u64 && damage.to_string().contains("byte "), "{damage}");
    }
}

#[test]
fn more_after_the_footer_is_refused() {
    let mut bytes = write(&small_events());
    let len = bytes.len() as u64;
    bytes.push(0);
    assert_eq!(read(&bytes).unwrap_err().offset, len);
}

#[test]
fn another_magic_and_a_future_version_are_refused_by_name() {
    assert!(read(b"\x7fELF0000000000").unwrap_err().what.contains("not a trace"));
    let mut bytes = write(&[]);
    bytes[8] = VERSION as u8 + 1;
    let damage = read(&bytes).unwrap_err();
    let said = format!("version {}, and this program reads versions up to {VERSION}", VERSION + 1);
    assert!(damage.offset == 8 && damage.what.contains(&said), "{damage}");
    bytes[8] = 0;
    assert!(read(&bytes).unwrap_err().what.contains("no format version 0"));
}

#[test]
fn events_of_a_later_format_are_refused_in_a_trace_of_an_earlier_one() {
    let with = |events: &[Event]| {
        let mut bytes = write(events);
        bytes[8] = 1;
        read(&bytes)
    };
    let all = small_events();
    assert_eq!(with(&[all[0].clone(), all[1].clone()]).unwrap().1.len(), 2);
    for later in [&all[2], &all[9], &all[10]] {
        let damage = with(std::slice::from_ref(later)).unwrap_err();
        assert!(damage.what.contains("an event of format 2"), "{damage}");
    }
}

/// What a reader of a version must know: a change of it needs another version, or that reader would say that
/// the file is damaged.
#[test]
fn what_an_event_may_hold_belongs_to_the_version() {
    let calls = Sys::ALL.iter().map(|&sys| format!("{}:{} ", sys as u16, sys.arity()));
    let known = crc64(&[calls.collect::<String>().as_bytes()]);
    assert_eq!(
        (VERSION, format!("{known:x}")),
        (2, "7b87e16794db9cac".to_string()),
        "count up trace::block::VERSION"
    );
}

#[test]
fn five_hundred_processes_are_a_summary() {
    let count = |pid| ProcessCount { pid, faults: u64::from(pid), ..ProcessCount::default() };
    let footer = Footer { processes: (1..=500).map(count).collect(), faults: 125_250, ..Footer::default() };
    let text = info::Info { header: header(), footer, ..info::Info::default() }.text();
    assert!(text.lines().count() < 60, "{text}");
    assert!(
        text.contains("\n  500 ") && text.contains("and 480 other processes, with 115440 faults"),
        "{text}"
    );
}

#[test]
fn blocks_that_change_places_are_refused() {
    let mut one = BlockWriter::new(Vec::new()).unwrap();
    one.write(BlockKind::Events, b"abcdef").unwrap();
    one.write(BlockKind::Events, b"ghijkl").unwrap();
    let bytes = one.finish().unwrap();
    let half = (bytes.len() - 12) / 2;
    let swapped = [&bytes[..12], &bytes[12 + half..], &bytes[12..12 + half]].concat();
    assert!(BlockReader::new(&bytes[..]).unwrap().read_block().is_ok());
    assert!(BlockReader::new(&swapped[..]).unwrap().read_block().unwrap_err().what.contains("checksum"));
}

#[test]
fn a_length_beyond_the_bound_is_refused_before_memory_is_asked_for() {
    let mut bytes = BlockWriter::new(Vec::new()).unwrap().finish().unwrap();
    bytes.extend_from_slice(&[3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(BlockReader::new(&bytes[..]).unwrap().read_block().unwrap_err().what.contains("too large"));
}

#[test]
fn an_event_that_goes_back_in_time_is_not_written() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    let events = small_events();
    writer.event(&events[2]).unwrap();
    assert!(writer.event(&events[0]).is_err());
}

/// Whole traces whose blocks are sound and whose content is anything: checksums do not help here.
fn forged(kind: BlockKind, content: &[u8]) -> Vec<u8> {
    let mut blocks = BlockWriter::new(Vec::new()).unwrap();
    blocks.write(BlockKind::Header, &serde_json::to_vec(&header()).unwrap()).unwrap();
    blocks.write(kind, content).unwrap();
    blocks.write(BlockKind::Footer, &serde_json::to_vec(&Footer::default()).unwrap()).unwrap();
    blocks.finish().unwrap()
}

proptest! {
    #[test]
    fn forged_events_never_panic_and_never_agree_with_the_footer(
        content in prop::collection::vec(any::<u8>(), 1..80),
    ) {
        prop_assert!(read(&forged(BlockKind::Events, &content)).is_err());
    }

    #[test]
    fn any_bytes_at_all_are_refused(content: Vec<u8>) {
        prop_assert!(read(&content).is_err());
    }

    #[test]
    fn forged_json_is_refused(content in "\\PC*") {
        prop_assert!(read(&forged(BlockKind::Image, content.as_bytes())).is_err());
        prop_assert!(read(&forged(BlockKind::Footer, content.as_bytes())).is_err());
    }

    #[test]
    fn any_fault_comes_back(address: u64, time_ns: u64, pid: u32, tid: u32, pick in 0usize..24) {
        let access = [Access::Read, Access::Write, Access::Execute, Access::Unknown][pick % 4];
        let mode = [Mode::User, Mode::Kernel][pick / 4 % 2];
        let cause = [Cause::Absent, Cause::Protection, Cause::Unknown][pick / 8];
        let kind = Kind::Fault(Fault { address, access, mode, cause });
        let events = vec![Event { time_ns, pid, tid, kind }];
        prop_assert_eq!(read(&write(&events)).unwrap().1, events);
    }
}
