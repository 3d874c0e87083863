//! Traces that no recorder wrote: each ends in a report or in one line, and none in much memory.

use super::*;
use interleaf_lab::trace::block::{BlockKind, BlockWriter};
use interleaf_lab::trace::codec::Encoder;
use interleaf_lab::trace::{Footer, TraceWriter};

const EDGES: [u64; 16] = [
    0,
    1,
    0xfff,
    0x1000,
    0x2000,
    TEXT,
    TOP - 0x3000,
    STACK,
    (1 << 47) - 0x1000,
    1 << 47,
    1 << 56,
    1 << 63,
    0x9891_506f_64c0_599d,
    u64::MAX - 0x1fff,
    u64::MAX - 0xfff,
    u64::MAX,
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn word(&mut self) -> u64 {
        EDGES[self.below(EDGES.len() as u64) as usize]
    }

    fn event(&mut self) -> Event {
        if self.below(4) == 0 {
            return fault(self.word(), Access::Write, Cause::Absent);
        }
        let sys = Sys::ALL[self.below(Sys::ALL.len() as u64) as usize];
        let mut args = [(); 6].map(|()| self.word());
        if sys == Sys::Mmap && self.below(2) == 0 {
            args[3] = [0x22, 0x8022, 0x2022, 0x122, 0x40022, 0x28, 0x32][self.below(7) as usize];
        }
        if sys == Sys::Madvise {
            args[2] = self.below(26);
        }
        let result = [0, -12, -22, self.word() as i64, TOP as i64 - 0x8000][self.below(5) as usize];
        call(sys, args, result)
    }
}

#[test]
fn words_at_the_edges_of_addresses_end_in_a_report_or_one_line() {
    let (mut dice, mut replayed, mut refused) = (Dice(7), 0, 0);
    for _ in 0..400 {
        let mut events: Vec<Event> = (0..6).map(|_| dice.event()).collect();
        events.push(exit(vec![]));
        let mut header = header();
        match dice.below(8) {
            0 => header.image.layout.start_stack = dice.word(),
            1 => header.image.layout.start_brk = dice.word(),
            2 => header.host.settings.push(("mmap_min_addr".into(), dice.word().to_string())),
            3 => header.limits.stack_bytes = Some(dice.word()),
            _ => {}
        }
        let played = Replay::of(header, events).and_then(|replay| replay.check(Path::Speculative, |_| ()));
        match played {
            Ok(report) => replayed += u64::from(!report.text().is_empty()),
            Err(line) => {
                assert!(!line.contains('\n'), "{line}");
                refused += 1;
            }
        }
    }
    assert!(replayed > 50 && refused > 10, "{replayed} replayed, {refused} refused");
}

/// The one line with which a file is refused.
fn refused(bytes: &[u8]) -> String {
    let line = Replay::read_bytes(bytes).err().expect("a refusal");
    assert!(!line.contains('\n'), "{line}");
    line
}

fn file(blocks: &[(BlockKind, &[u8])]) -> Vec<u8> {
    let mut writer = BlockWriter::new(Vec::new()).unwrap();
    for (kind, content) in blocks {
        writer.write_unbounded(*kind, content).unwrap();
    }
    writer.finish().unwrap()
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

#[test]
fn a_small_file_of_many_events_is_refused_before_they_are_collected() {
    let mut encoder = Encoder::default();
    let once = |encoder: &mut Encoder| {
        let before = encoder.bytes().len();
        encoder.push(&fault(0x1000, Access::Write, Cause::Absent));
        encoder.bytes()[before..].to_vec()
    };
    let (mut events, again) = (once(&mut encoder), once(&mut encoder));
    while events.len() + again.len() <= 1 << 20 {
        events.extend_from_slice(&again);
    }
    let head = json(&header());
    let mut blocks: Vec<(BlockKind, &[u8])> = vec![(BlockKind::Header, &head)];
    blocks.extend((0..300).map(|_| (BlockKind::Events, &events[..])));
    let bytes = file(&blocks);
    assert!(bytes.len() < 100_000);
    assert!(refused(&bytes).contains("more than any recording comes to"));
}

#[test]
fn a_small_header_of_many_words_is_refused() {
    let mut large = header();
    large.command = vec![String::new(); 8 << 20];
    let bytes = file(&[(BlockKind::Header, &json(&large))]);
    assert!(bytes.len() < 100_000);
    assert!(refused(&bytes).contains("more than any recording comes to"));
}

#[test]
fn large_maps_of_few_bytes_are_refused() {
    let image = image(vec![mapping(TEXT + 0x10_0000, 1, "rw-p", &"a".repeat(1 << 20), "")]);
    let (head, image) = (json(&header()), json(&image));
    let blocks = [(BlockKind::Header, &head[..]), (BlockKind::Image, &image), (BlockKind::Image, &image)];
    assert!(refused(&file(&blocks)).contains("more than any recording comes to"));
}

#[test]
fn a_map_or_a_landmark_beyond_user_space_is_refused() {
    let written = |header: Header| {
        let writer = TraceWriter::new(Vec::new(), &header).unwrap();
        writer.finish(Footer::default()).unwrap().0
    };
    assert!(Replay::read_bytes(&written(header())).is_ok());
    let mut beyond = header();
    beyond.image.layout.start_stack = u64::MAX;
    assert!(refused(&written(beyond)).contains("beyond user space"));
    let mut beyond = header();
    beyond.image.mappings.push(mapping(1 << 60, 1, "rw-p", "", ""));
    assert!(refused(&written(beyond)).contains("beyond user space"));
}

#[test]
fn a_granted_call_of_impossible_length_is_refused() {
    let line = Replay::of(header(), vec![anonymous(1 << 40, TOP - 0x3000)]).err().unwrap();
    assert!(line.contains("granted"), "{line}");
    let populate = call(Sys::Mmap, [0, u64::MAX, 3, 0x8022, u64::MAX, 0], -12);
    assert!(Replay::of(header(), vec![populate; 2048]).is_ok(), "what was refused needs no memory");
}
