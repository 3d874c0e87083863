//! Tests on the seeded machine, where every access is a choice: one file for each matter.

mod downgrade;
mod fair;
mod files;
mod helped;
mod helped_teardown;
mod init;
mod jobs;
mod lazy;
mod mishap_jobs;
mod pairs;
mod walkers;
mod with_helpers;
mod zero_races;
