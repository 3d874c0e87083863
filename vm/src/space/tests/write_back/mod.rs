//! Files: dirty pages, and how they are written back.

mod errors;
mod io;
mod pages;
mod random;
mod will_need;
