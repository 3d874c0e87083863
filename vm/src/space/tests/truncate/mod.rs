//! Objects that become shorter and longer, and holes in them.

mod base;
mod huge;
mod random;
mod seals;
