//! Measuring: one question per file.

pub mod setting;
