//! Fuzzing what reads that which others wrote: valid inputs, changed in a few places, and random bytes.
//!
//! A parser may refuse an input or take it. It must not panic, and what it takes must hold what it promises;
//! each [`Parser`] checks that.

mod binary;
mod text;
mod trace;

use super::attempt::{failure, shorten};
use super::words::mutate;
use super::{Fuzzer, Group, Played};
use interleaf_lab::rng::Rng;
use std::fmt::Write;

/// Something that reads input, with inputs that it takes.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name.
    pub name: &'static str,
    /// How often its inputs are drawn.
    pub weight: u64,
    /// Inputs that it takes.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Reads an input, and checks what it makes of it. Panics where that does not hold.
    pub read: fn(&[u8]),
}

/// All parsers, with their samples.
pub struct Parsers {
    parsers: Vec<(Parser, Vec<Vec<u8>>)>,
}

/// Inputs of a case.
const INPUTS: u64 = 64;
/// Longest piece of a sample that is used.
const LONGEST: usize = 4096;

impl Parsers {
    /// Those of this floor, and `others`.
    #[must_use]
    pub fn new(others: &[Parser]) -> Self {
        let all = [&trace::PARSERS[..], &binary::PARSERS[..], &text::PARSERS[..], others].concat();
        Self { parsers: all.into_iter().map(|parser| (parser, (parser.samples)())).collect() }
    }

    /// The parser of a case, and its inputs.
    fn inputs(&self, seed: u64) -> (Parser, Vec<Vec<u8>>) {
        let mut rng = Rng::new(seed);
        let indices = self.parsers.iter().enumerate();
        let weights: Vec<_> = indices.map(|(index, (parser, _))| (parser.weight, index)).collect();
        let (parser, samples) = &self.parsers[rng.weighted(&weights)];
        (*parser, (0..INPUTS).map(|_| input(&mut rng, samples)).collect())
    }
}

/// Random bytes, or a sample, or a piece of one, changed.
fn input(rng: &mut Rng, samples: &[Vec<u8>]) -> Vec<u8> {
    if rng.chance(1, 10) {
        return (0..rng.below(120)).map(|_| rng.bits() as u8).collect();
    }
    let sample = &samples[rng.below(samples.len() as u64) as usize];
    let whole = rng.chance(3, 4) && sample.len() <= LONGEST;
    let first = if whole { 0 } else { rng.below(sample.len() as u64) as usize };
    let last = (first + LONGEST).min(sample.len());
    let mut bytes = sample[first..last].to_vec();
    mutate(rng, &mut bytes, 5);
    bytes
}

impl Fuzzer for Parsers {
    fn play(&mut self, seed: u64) -> Result<Played, String> {
        let (parser, inputs) = self.inputs(seed);
        inputs.iter().for_each(|input| (parser.read)(input));
        Ok(Played { target: parser.name, executions: INPUTS })
    }

    fn shortest(&mut self, seed: u64) -> String {
        let (parser, inputs) = self.inputs(seed);
        let why = |input: &[u8]| {
            failure((Group::Parse, seed), || {
                (parser.read)(input);
                Ok(())
            })
        };
        let Some(input) = inputs.iter().find(|input| why(input).is_some()) else {
            return "it does not fail again".into();
        };
        let (bytes, why) = shorten(input, why);
        let mut text = format!("{}: {} bytes, \"{}\"\n   ", parser.name, bytes.len(), bytes.escape_ascii());
        for byte in &bytes {
            // Writing to a string does not fail.
            let _ = write!(text, " {byte:02x}");
        }
        format!("{text}\n{why}")
    }
}
