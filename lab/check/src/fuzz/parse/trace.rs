//! Traces: the file, its blocks, its events, its descriptions.

use super::Parser;
use interleaf_lab::replay::shipped;
use interleaf_lab::trace::block::{BlockKind, BlockReader, BlockWriter};
use interleaf_lab::trace::codec::{Decoder, Encoder};
use interleaf_lab::trace::{Event, Footer, Header, Image, TraceReader, dump};
use std::sync::Arc;

pub(super) const PARSERS: [Parser; 4] = [
    Parser { name: "trace files", weight: 2, samples: files, read: read_file },
    Parser { name: "trace blocks", weight: 1, samples: events, read: read_blocks },
    Parser { name: "events of a trace", weight: 3, samples: events, read: read_events },
    Parser { name: "descriptions in a trace", weight: 2, samples: descriptions, read: read_description },
];

/// Events of a sample.
const EVENTS: usize = 60;

/// A whole trace of few events, and its contents block by block.
fn small() -> (Header, Vec<Event>) {
    let reader = TraceReader::new(shipped::SQLITE).expect("a shipped trace is sound");
    let (mut header, events, _) = reader.read_all().expect("a shipped trace is sound");
    header.image.mappings.truncate(3);
    (header, events.into_iter().take(EVENTS).collect())
}

fn files() -> Vec<Vec<u8>> {
    let (header, events) = small();
    let mut writer = interleaf_lab::trace::TraceWriter::new(Vec::new(), &header).expect("writing to memory");
    events.iter().for_each(|event| writer.event(event).expect("writing to memory"));
    vec![writer.finish(Footer::default()).expect("writing to memory").0]
}

fn events() -> Vec<Vec<u8>> {
    let (_, events) = small();
    let mut encoder = Encoder::default();
    events.iter().for_each(|event| encoder.push(event));
    vec![encoder.bytes().to_vec()]
}

fn descriptions() -> Vec<Vec<u8>> {
    let (header, _) = small();
    let image = serde_json::to_vec(&header.image).expect("an image is plain data");
    let footer = serde_json::to_vec(&Footer::default()).expect("a footer is plain data");
    vec![serde_json::to_vec(&header).expect("a header is plain data"), image, footer]
}

fn read_file(bytes: &[u8]) {
    let read = TraceReader::new(bytes).and_then(TraceReader::read_all);
    if let Ok((header, events, footer)) = read {
        assert_eq!(footer.events, events.len() as u64);
        header.check().expect("a header that was read is sound");
    }
    // The blocks, without what they mean.
    if let Ok(mut blocks) = BlockReader::new(bytes) {
        while blocks.read_block().is_ok() {}
    }
}

/// A file that is sound but for the content of one block of events.
fn read_blocks(content: &[u8]) {
    let (header, footer) = (Header { host: host(), ..Header::default() }, Footer::default());
    let mut writer = BlockWriter::new(Vec::new()).expect("writing to memory");
    let header = serde_json::to_vec(&header).expect("a header is plain data");
    let footer = serde_json::to_vec(&footer).expect("a footer is plain data");
    let blocks =
        [(BlockKind::Header, &header[..]), (BlockKind::Events, content), (BlockKind::Footer, &footer)];
    for (kind, content) in blocks {
        writer.write(kind, content).expect("writing to memory");
    }
    read_file(&writer.finish().expect("writing to memory"));
}

fn host() -> interleaf_lab::trace::Host {
    interleaf_lab::trace::Host { page_bytes: 4096, ..interleaf_lab::trace::Host::default() }
}

fn read_events(content: &[u8]) {
    let image = Arc::new(Image::default());
    let mut take = || Ok(image.clone());
    let mut decoder = Decoder::new(content);
    let mut events = 0;
    while let Ok(Some(event)) = decoder.next(&mut take) {
        events += 1;
        let _ = dump::line(&event);
    }
    assert!(events <= content.len(), "{events} events of {} bytes", content.len());
}

fn read_description(bytes: &[u8]) {
    if let Ok(header) = serde_json::from_slice::<Header>(bytes) {
        let _ = header.check();
    }
    if let Ok(image) = serde_json::from_slice::<Image>(bytes)
        && image.check().is_ok()
    {
        for mapping in &image.mappings {
            assert_eq!(image.find(mapping.start), Some(mapping));
            let _ = mapping.line();
        }
    }
    let _ = serde_json::from_slice::<Footer>(bytes);
}
