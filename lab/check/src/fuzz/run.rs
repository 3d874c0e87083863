//! Running the fuzzers: threads, shares of the time, the end.

use super::attempt::attempt;
use super::report::Counts;
use super::{FuzzReport, Fuzzer, Group, Parser, oracle, parse, space};
use interleaf_lab::rng::Rng;
use interleaf_lab::show::Progress;
use interleaf_lab::show::table::grouped;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FuzzLimit {
    /// After this time.
    Time(Duration),
    /// After this number of executions.
    Executions(u64),
}

/// What is run.
#[derive(Clone, Debug)]
pub struct FuzzConfig {
    /// All cases follow from it.
    pub seed: u64,
    /// When it ends.
    pub limit: FuzzLimit,
    /// What is fuzzed.
    pub groups: Vec<Group>,
    /// Threads.
    pub jobs: u32,
    /// Parsers that this floor does not know.
    pub parsers: Vec<Parser>,
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzFailure {
    /// The group.
    pub group: Group,
    /// The seed of the case.
    pub case: u64,
    /// What does not hold, and the shortest form of the case.
    pub what: String,
}

impl fmt::Display for FuzzFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, case) = (self.group.name(), self.case);
        writeln!(
            f,
            "case {case} of {group} fails; again: interleaf check fuzz --only {group} --case {case}"
        )?;
        write!(f, "{}", self.what)
    }
}

/// A case that takes longer does not end.
const LONGEST: Duration = Duration::from_secs(60);

/// The fuzzers of one run.
pub struct Runner {
    config: FuzzConfig,
    start: Instant,
    executions: AtomicU64,
    ends: AtomicBool,
    /// The number of the next case of each group.
    next: [AtomicU64; Group::ALL.len()],
    failed: Mutex<Option<(Group, u64)>>,
    counts: Mutex<Counts>,
    /// What each thread plays, and since when.
    playing: Vec<Mutex<Option<(Group, u64, Instant)>>>,
}

impl Runner {
    /// Nothing played yet.
    #[must_use]
    pub fn new(config: FuzzConfig) -> Self {
        let playing = (0..config.jobs).map(|_| Mutex::new(None)).collect();
        Self {
            start: Instant::now(),
            executions: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            next: [const { AtomicU64::new(0) }; Group::ALL.len()],
            failed: Mutex::new(None),
            counts: Mutex::default(),
            playing,
            config,
        }
    }

    /// Plays the one case of `seed` again, and shortens it where it fails.
    ///
    /// # Errors
    /// What does not hold; or, as the text of a failure of no group, why it cannot be played.
    pub fn replay(&self, group: Group, case: u64) -> Result<FuzzReport, FuzzFailure> {
        let failure = |what| FuzzFailure { group, case, what };
        let mut fuzzer = self.fuzzer(group).map_err(failure)?;
        let began = Instant::now();
        let played = attempt((group, case), || fuzzer.play(case)).map_err(|_| self.explain(group, case))?;
        let mut counts = Counts::default();
        counts.add(group, played, began.elapsed());
        Ok(self.report(counts, Vec::new()))
    }

    /// Plays until the limit is reached.
    ///
    /// # Errors
    /// The first case that fails, shortened.
    pub fn run(&self, progress: &Progress) -> Result<FuzzReport, FuzzFailure> {
        let (groups, left_out) = self.playable();
        thread::scope(|scope| {
            let work = |thread| {
                scope.spawn({
                    let groups = groups.clone();
                    move || self.work(thread, &groups)
                })
            };
            let threads: Vec<_> = (0..self.playing.len()).map(work).collect();
            while !threads.iter().all(|thread| thread.is_finished()) {
                self.watch(progress);
            }
        });
        if let Some((group, case)) = lock(&self.failed).take() {
            return Err(self.explain(group, case));
        }
        let counts = std::mem::take(&mut *lock(&self.counts));
        Ok(self.report(counts, left_out))
    }

    /// The groups that this machine can play, and what it cannot.
    fn playable(&self) -> (Vec<Group>, Vec<String>) {
        let (mut groups, mut left_out) = (Vec::new(), Vec::new());
        for &group in &self.config.groups {
            match self.fuzzer(group) {
                Ok(_) => groups.push(group),
                Err(why) => left_out.push(format!("{}: {why}", group.name())),
            }
        }
        (groups, left_out)
    }

    fn fuzzer(&self, group: Group) -> Result<Box<dyn Fuzzer>, String> {
        Ok(match group {
            Group::Space => Box::new(space::Spaces::new().map_err(|error| error.to_string())?),
            Group::Parse => Box::new(parse::Parsers::new(&self.config.parsers)),
            Group::Oracle => Box::new(oracle::Sequences::new().map_err(|error| error.to_string())?),
            Group::Forks => Box::new(oracle::ProcessSequences::new().map_err(|error| error.to_string())?),
        })
    }

    /// Plays on one thread: always the group that is furthest behind its share of the time.
    fn work(&self, thread: usize, groups: &[Group]) {
        let made = groups.iter().map(|&group| Some((group, self.fuzzer(group).ok()?, 0.0_f64)));
        let mut fuzzers: Vec<_> = made.flatten().collect();
        let mut counts = Counts::default();
        while !self.is_over() {
            let least = fuzzers.iter_mut().min_by(|one, other| one.2.total_cmp(&other.2));
            let Some((group, fuzzer, share)) = least else { break };
            let case = self.next_case(*group);
            let began = Instant::now();
            *lock(&self.playing[thread]) = Some((*group, case, began));
            let played = attempt((*group, case), || fuzzer.play(case));
            *lock(&self.playing[thread]) = None;
            let time = began.elapsed();
            *share += time.as_secs_f64() / group.weight();
            match played {
                Ok(played) => {
                    self.executions.fetch_add(played.executions, Relaxed);
                    counts.add(*group, played, time);
                }
                Err(_) => {
                    lock(&self.failed).get_or_insert((*group, case));
                    self.ends.store(true, Relaxed);
                    // What a panic left behind is not dropped.
                    std::mem::forget(fuzzers);
                    break;
                }
            }
        }
        lock(&self.counts).merge(counts);
    }

    /// The seed of the next case of a group: all follow from the seed of the run.
    pub fn next_case(&self, group: Group) -> u64 {
        let number = self.next[group as usize].fetch_add(1, Relaxed);
        let start = Rng::new(self.config.seed ^ (group as u64 + 1) << 56).bits();
        Rng::new(start.wrapping_add(number)).bits()
    }

    fn is_over(&self) -> bool {
        self.ends.load(Relaxed)
            || match self.config.limit {
                FuzzLimit::Time(time) => self.start.elapsed() >= time,
                FuzzLimit::Executions(most) => self.executions.load(Relaxed) >= most,
            }
    }

    /// Waits a moment, draws the progress, and ends the process where a case does not end: its thread cannot
    /// be ended alone.
    fn watch(&self, progress: &Progress) {
        thread::sleep(Duration::from_millis(20));
        let executions = self.executions.load(Relaxed);
        let per_mille = match self.config.limit {
            FuzzLimit::Time(time) => self.start.elapsed().as_secs_f64() / time.as_secs_f64(),
            FuzzLimit::Executions(most) => executions as f64 / most as f64,
        } * 1000.0;
        progress.reach(per_mille as u64, &format!("{} executions", grouped(executions as i64)));
        for playing in &self.playing {
            let long = lock(playing).filter(|(.., began)| began.elapsed() > LONGEST);
            if let Some((group, case, _)) = long {
                let what = format!("it does not end within {} s", LONGEST.as_secs());
                eprintln!("interleaf: {}", FuzzFailure { group, case, what });
                std::process::exit(1);
            }
        }
    }

    /// The failure of a case, shortened on threads of their own.
    fn explain(&self, group: Group, case: u64) -> FuzzFailure {
        let what = match self.fuzzer(group) {
            Ok(mut fuzzer) => fuzzer.shortest(case),
            Err(why) => why,
        };
        FuzzFailure { group, case, what }
    }

    fn report(&self, counts: Counts, left_out: Vec<String>) -> FuzzReport {
        let seconds = self.start.elapsed().as_secs_f64();
        FuzzReport::new(self.config.seed, self.config.jobs, seconds, counts, left_out)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
