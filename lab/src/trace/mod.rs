//! Traces: what a real program did to its memory, recorded, kept and read back.
//!
//! ```text
//!  a program      record/                  order.rs        writer.rs          reader.rs
//!  under Linux -> tracepoints, ptrace  ->  one order  ->  blocks in a file -> Header, Events, Footer
//! ```
//!
//! [`event`] holds the events, [`header`] the description of a trace; [`block`] and [`codec`] are the
//! format (`docs/design/trace-format.md`), and [`reader::TraceReader`] is the one checked way from a file to
//! events.

#![forbid(unsafe_code)]

pub mod block;
pub mod bytes;
pub mod calls;
pub mod codec;
pub mod damage;
pub mod dump;
pub mod event;
pub mod header;
pub mod image;
pub mod info;
pub mod order;
pub mod reader;
pub mod record;
pub mod writer;

#[cfg(test)]
mod tests;

pub use calls::{Shape, Sys};
pub use damage::Damage;
pub use event::{
    Access, CacheChange, Cached, Call, Cause, Event, Fault, FileFacts, Inode, Kind, Mode, NewTask,
    ProcessExit, Signal, Started,
};
pub use header::{Account, Extent, Footer, Header, Host, LOWEST_HINT, Limits, ProcessCount, SWAP_BYTES};
pub use image::{Image, Layout, Mapping};
pub use reader::TraceReader;
pub use writer::TraceWriter;
