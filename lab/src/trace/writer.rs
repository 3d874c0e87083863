//! Writes a trace: header, then events as they come, then the footer.

use super::block::{BlockKind, BlockWriter};
use super::codec::Encoder;
use super::event::{Event, Kind, ProcessExit, Started};
use super::header::{Footer, Header};
use super::image::Image;
use serde::Serialize;
use std::io::{self, Write};

/// The most images that may wait in a file for the event that takes them.
pub const WAITING_IMAGES_MOST: usize = 16;
const BLOCK_BYTES: usize = 256 << 10;

/// Writes one trace.
pub struct TraceWriter<W: Write> {
    blocks: BlockWriter<W>,
    pending: Encoder,
    waiting_images: usize,
    last_ns: u64,
    counts: Footer,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace on `out`.
    pub fn new(out: W, header: &Header) -> io::Result<TraceWriter<W>> {
        let mut blocks = BlockWriter::new(out)?;
        blocks.write(BlockKind::Header, &json(header)?)?;
        let counts = Footer::default();
        Ok(TraceWriter { blocks, pending: Encoder::default(), waiting_images: 0, last_ns: 0, counts })
    }

    /// Appends an event. Its time must not be less than that of the event before.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.time_ns < self.last_ns {
            return Err(io::Error::other(format!("an event at {} ns after {}", event.time_ns, self.last_ns)));
        }
        self.last_ns = event.time_ns;
        match &event.kind {
            Kind::Exec(Started { image }) | Kind::Exit(ProcessExit { image: Some(image), .. }) => {
                self.image(image)?
            }
            Kind::Fault(_) => self.counts.faults += 1,
            Kind::Call(_) => self.counts.calls += 1,
            _ => {}
        }
        self.counts.events += 1;
        self.pending.push(event);
        if self.pending.bytes().len() >= BLOCK_BYTES || self.waiting_images >= WAITING_IMAGES_MOST {
            self.flush_events()?;
        }
        Ok(())
    }

    fn image(&mut self, image: &Image) -> io::Result<()> {
        self.waiting_images += 1;
        self.blocks.write(BlockKind::Image, &json(image)?)
    }

    fn flush_events(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.waiting_images = 0;
        if pending.bytes().is_empty() {
            Ok(())
        } else {
            self.blocks.write(BlockKind::Events, pending.bytes())
        }
    }

    /// Events, faults and calls written so far, and bytes.
    pub fn progress(&self) -> (u64, u64) {
        (self.counts.events, self.blocks.written_bytes())
    }

    /// Ends the trace with `footer`, whose counts of events are set to what was written.
    pub fn finish(mut self, footer: Footer) -> io::Result<(W, Footer)> {
        self.flush_events()?;
        let Footer { events, faults, calls, .. } = self.counts;
        let footer = Footer { events, faults, calls, ..footer };
        self.blocks.write(BlockKind::Footer, &json(&footer)?)?;
        Ok((self.blocks.finish()?, footer))
    }
}

fn json<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}
