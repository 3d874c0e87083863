//! What is counted on the machine that records accesses: lines, instructions of the door, contention, walks.

mod conflicts;
mod fork_lines;
mod matrix;
mod object_lines;
mod pin_lines;
mod records;
mod walk_lines;
mod walks;
