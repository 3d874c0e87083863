//! Collapse of base pages into huge ones, by kind of memory.

mod huge;
mod regions;
mod steps;
