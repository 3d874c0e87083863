//! Reads a trace: an iterator over its events that ends in `None` only if the whole file was sound.
//!
//! A file is untrusted. Nothing is used before its block's checksum matched, every length is bounded before
//! memory is allocated, and at most a few images are held at a time.

use super::block::{Block, BlockKind, BlockReader};
use super::codec::{Decoder, is_of_format_2};
use super::damage::Damage;
use super::event::{Event, Kind};
use super::header::{Footer, Header};
use super::image::Image;
use super::writer::WAITING_IMAGES_MOST;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::vec;

/// Reads one trace.
pub struct TraceReader<R: Read> {
    blocks: BlockReader<R>,
    header: Header,
    footer: Option<Footer>,
    images: VecDeque<Arc<Image>>,
    events: vec::IntoIter<Event>,
    counts: Counts,
    over: bool,
}

#[derive(Default, PartialEq, Eq)]
struct Counts {
    events: u64,
    faults: u64,
    calls: u64,
    last_ns: u64,
}

impl TraceReader<BufReader<File>> {
    /// Opens the trace at `path`.
    pub fn open(path: &Path) -> Result<TraceReader<BufReader<File>>, Damage> {
        let file = File::open(path).map_err(|e| Damage::at(0, format!("cannot be opened: {e}")))?;
        TraceReader::new(BufReader::new(file))
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads the header of the trace in `input`.
    pub fn new(input: R) -> Result<TraceReader<R>, Damage> {
        let mut blocks = BlockReader::new(input)?;
        let first = blocks.read_block()?;
        if first.kind != BlockKind::Header {
            return Err(Damage::at(first.offset, "the first block is not the header"));
        }
        let header: Header = parse(&first)?;
        header.check().map_err(|what| Damage::at(first.offset, what))?;
        let (images, events) = (VecDeque::new(), Vec::new().into_iter());
        Ok(TraceReader {
            blocks,
            header,
            footer: None,
            images,
            events,
            counts: Counts::default(),
            over: false,
        })
    }

    /// Where, how and of what the trace was made.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the trace adds up to, once every event has been read.
    pub fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    /// Reads everything that is left: the events, and the footer.
    pub fn read_all(mut self) -> Result<(Header, Vec<Event>, Footer), Damage> {
        let events = self.by_ref().collect::<Result<Vec<_>, _>>()?;
        let footer = self.footer.ok_or_else(|| Damage::at(0, "the trace has no footer"))?;
        Ok((self.header, events, footer))
    }

    fn advance(&mut self) -> Result<Option<Event>, Damage> {
        loop {
            if let Some(event) = self.events.next() {
                return Ok(Some(event));
            }
            if self.footer.is_some() {
                return Ok(None);
            }
            let block = self.blocks.read_block()?;
            match block.kind {
                BlockKind::Header => return Err(Damage::at(block.offset, "there is a second header")),
                BlockKind::Image => self.take_image(&block)?,
                BlockKind::Events => self.take_events(&block)?,
                BlockKind::Footer => self.take_footer(&block)?,
            }
        }
    }

    fn take_image(&mut self, block: &Block) -> Result<(), Damage> {
        if self.images.len() >= WAITING_IMAGES_MOST {
            return Err(Damage::at(block.offset, "there are more images than events take"));
        }
        let image: Image = parse(block)?;
        image.check().map_err(|what| Damage::at(block.offset, format!("an image is {what}")))?;
        self.images.push_back(Arc::new(image));
        Ok(())
    }

    fn take_events(&mut self, block: &Block) -> Result<(), Damage> {
        let TraceReader { images, counts, .. } = self;
        let damage = |what| Damage::at(block.offset, what);
        let mut decoder = Decoder::new(&block.content);
        let mut take = || images.pop_front().ok_or_else(|| "an event's image is missing".to_string());
        let mut events = Vec::new();
        while let Some(event) = decoder.next(&mut take).map_err(damage)? {
            if self.blocks.version() < 2 && is_of_format_2(&event.kind) {
                return Err(damage("an event of format 2 in a trace of format 1".to_string()));
            }
            counts.add(&event).map_err(damage)?;
            events.push(event);
        }
        self.events = events.into_iter();
        Ok(())
    }

    fn take_footer(&mut self, block: &Block) -> Result<(), Damage> {
        let footer: Footer = parse(block)?;
        let Counts { events, faults, calls, .. } = self.counts;
        if (footer.events, footer.faults, footer.calls) != (events, faults, calls) {
            return Err(Damage::at(block.offset, "the footer's counts are not those of the events"));
        }
        if !self.images.is_empty() {
            return Err(Damage::at(block.offset, "an image belongs to no event"));
        }
        self.blocks.expect_end()?;
        self.footer = Some(footer);
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, event: &Event) -> Result<(), String> {
        if event.time_ns < self.last_ns {
            return Err(format!("an event at {} ns follows one at {}", event.time_ns, self.last_ns));
        }
        self.last_ns = event.time_ns;
        self.events += 1;
        self.faults += u64::from(matches!(event.kind, Kind::Fault(_)));
        self.calls += u64::from(matches!(event.kind, Kind::Call(_)));
        Ok(())
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Event, Damage>;

    /// The next event; after an error, nothing more.
    fn next(&mut self) -> Option<Result<Event, Damage>> {
        if self.over {
            return None;
        }
        let next = self.advance();
        self.over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

fn parse<T: DeserializeOwned>(block: &Block) -> Result<T, Damage> {
    serde_json::from_slice(&block.content)
        .map_err(|e| Damage::at(block.offset, format!("a {:?} block cannot be read: {e}", block.kind)))
}
