//! What `interleaf-predict` says, for measurements that are held against it.

use super::checked::PREDICT;
use crate::error::Failure;
use crate::machine::sim::Profile;
use serde::Deserialize;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A prediction, as `interleaf predict --json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct Predicted {
    points: Vec<Point>,
}

#[derive(Clone, Debug, Deserialize)]
struct Point {
    path: String,
    rate_per_cpu: Rate,
}

#[derive(Clone, Debug, Deserialize)]
struct Rate {
    value: f64,
}

impl Predicted {
    /// Of a workload on so many CPUs, for faults on these paths.
    ///
    /// # Errors
    /// The program cannot be had, or fails.
    pub fn of(profile: &Profile, workload: &str, cpus: u32, paths: &str) -> Result<Self, Failure> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number is taken from it. Each call has a file of its own.
        let (process, call) = (std::process::id(), FILES.fetch_add(1, Relaxed));
        let file = std::env::temp_dir().join(format!("interleaf-profile-{process}-{call}.txt"));
        fs::write(&file, profile.to_string())?;
        let mut predict = PREDICT.program()?;
        predict
            .args([workload, "--cpus", &cpus.to_string(), "--path", paths, "--json", "--profile"])
            .arg(&file);
        let output = predict.output();
        let _removed = fs::remove_file(&file);
        let output = output?;
        if !output.status.success() {
            return Err(Failure::check(String::from_utf8_lossy(&output.stderr).trim().to_string()));
        }
        Self::read(&output.stdout)
    }

    /// Reads what the program printed.
    ///
    /// # Errors
    /// That is no prediction.
    pub fn read(json: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(json).map_err(|error| Failure::check(format!("{}: {error}", PREDICT.name)))
    }

    /// Nanoseconds of an operation of a CPU on a path.
    ///
    /// # Errors
    /// It was not predicted.
    pub fn ns(&self, path: &str) -> Result<f64, Failure> {
        let point = self.points.iter().find(|point| point.path == path);
        let none = || Failure::check(format!("{}: nothing about the {path} path", PREDICT.name));
        Ok(1e9 / point.ok_or_else(none)?.rate_per_cpu.value)
    }
}
