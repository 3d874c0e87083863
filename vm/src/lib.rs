//! Interleaf.
#![no_std]
