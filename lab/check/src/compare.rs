//! Two systems side by side, and the shortest sequence on which they differ.

use super::calls::{Call, Outcome, PAGE, PageState, System};
use super::setting::{MANY_PAGES, Setting};
use std::collections::HashSet;
use std::fmt::{self, Write};

/// A sequence on which two systems differ, and what each made of it.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The sequence, shortened as far as it would go.
    pub calls: Vec<Call>,
    /// The systems by name and what they said.
    pub sides: [(String, Outcome); 2],
}

/// Runs `calls` on both; if they differ, looks for the shortest sequence on which they still do.
pub fn compare(
    setting: &Setting,
    one: &mut dyn System,
    other: &mut dyn System,
    calls: &[Call],
) -> Option<Difference> {
    if one.run(calls) == other.run(calls) {
        return None;
    }
    let calls = shortest(setting, calls, &mut |calls| one.run(calls) != other.run(calls));
    let sides = [(one.name().into(), one.run(&calls)), (other.name().into(), other.run(&calls))];
    Some(Difference { calls, sides })
}

/// Shortens `calls` while `differs` holds: leaves out calls, many at a time first, then simplifies their
/// arguments.
pub fn shortest(setting: &Setting, calls: &[Call], differs: &mut dyn FnMut(&[Call]) -> bool) -> Vec<Call> {
    let mut best = calls.to_vec();
    loop {
        let before = best.clone();
        leave_out(&mut best, differs);
        simplify(setting, &mut best, differs);
        if best == before {
            return best;
        }
    }
}

/// Leaves out runs of items while `differs` holds for the rest, halving their length down to one.
pub(crate) fn leave_out<T: Clone>(best: &mut Vec<T>, differs: &mut dyn FnMut(&[T]) -> bool) {
    let mut run = best.len().div_ceil(2);
    while run > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut fewer = best.clone();
            fewer.drain(at..(at + run).min(best.len()));
            if !fewer.is_empty() && differs(&fewer) {
                *best = fewer;
            } else {
                at += run;
            }
        }
        run /= 2;
    }
}

/// Puts simpler calls in the place of each.
fn simplify(setting: &Setting, best: &mut Vec<Call>, differs: &mut dyn FnMut(&[Call]) -> bool) {
    for at in 0..best.len() {
        for simpler in simpler(&best[at]) {
            let mut other = best.clone();
            other[at] = simpler;
            if setting.admits(&simpler) && differs(&other) {
                *best = other;
                break;
            }
        }
    }
}

/// Calls like `call` with shorter ranges and fewer flags.
fn simpler(call: &Call) -> Vec<Call> {
    let lens = |len: u64| {
        let page_less = if len <= MANY_PAGES * PAGE { len.saturating_sub(PAGE) } else { 0 };
        let shorter = [PAGE, len / 2 / PAGE * PAGE, page_less];
        shorter.into_iter().filter(move |&new| new < len && new > 0)
    };
    match *call {
        Call::Mmap { hint, len, prot, flags } => {
            let shorter = lens(len).map(|len| Call::Mmap { hint, len, prot, flags });
            let plainer = flags.iter().map(|flag| Call::Mmap { hint, len, prot, flags: flags - flag });
            shorter.chain(plainer).collect()
        }
        Call::Munmap { addr, len } => lens(len).map(|len| Call::Munmap { addr, len }).collect(),
        Call::Mremap { addr, old_len, new_len, flags, to } => {
            let both = |(old_len, new_len)| Call::Mremap { addr, old_len, new_len, flags, to };
            let alike = lens(old_len).filter(|_| old_len == new_len).map(|len| (len, len));
            let others =
                lens(new_len).map(|len| (old_len, len)).chain(lens(old_len).map(|len| (len, new_len)));
            alike.chain(others).map(both).collect()
        }
        Call::Mprotect { addr, len, prot } => {
            lens(len).map(|len| Call::Mprotect { addr, len, prot }).collect()
        }
        Call::Madvise { addr, len, advice } => {
            lens(len).map(|len| Call::Madvise { addr, len, advice }).collect()
        }
        Call::Mbind { addr, len, mode, nodes, flags } => {
            let shorter = lens(len).map(|len| Call::Mbind { addr, len, mode, nodes, flags });
            shorter.chain((flags != 0).then_some(Call::Mbind { addr, len, mode, nodes, flags: 0 })).collect()
        }
        Call::Mincore { addr, len } => lens(len).map(|len| Call::Mincore { addr, len }).collect(),
        Call::Msync { addr, len, flags } => lens(len).map(|len| Call::Msync { addr, len, flags }).collect(),
        Call::File(call) => lens(call.len()).map(|len| Call::File(call.with_len(len))).collect(),
        Call::Words { .. } => vec![call.plain()],
        Call::Brk { .. } | Call::Read { .. } | Call::Write { .. } => Vec::new(),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, left), (other, right)] = &self.sides;
        for (index, call) in self.calls.iter().enumerate() {
            let (a, b) = (&left.answers[index], &right.answers[index]);
            writeln!(f, "    {call}")?;
            if a == b {
                writeln!(f, "        // {a:x?}")?;
            } else {
                writeln!(f, "        // {one}: {a:x?}   {other}: {b:x?}   <--")?;
            }
        }
        f.write_str(&both(one, other, "map", &left.map, &right.map)?)?;
        f.write_str(&differing_pages(one, other, &left.pages, &right.pages)?)?;
        if left.huge == right.huge {
            return writeln!(f, "huge leaves, the same in both: {:x?}", left.huge);
        }
        writeln!(f, "huge leaves of {one}: {:x?}\nof {other}: {:x?}", left.huge, right.huge)
    }
}

/// The pages that both have alike, by number if there are many, and those that they have not.
fn differing_pages(
    one: &str,
    other: &str,
    a: &[(u64, PageState)],
    b: &[(u64, PageState)],
) -> Result<String, fmt::Error> {
    const MANY: usize = 32;
    if a.len().max(b.len()) <= MANY {
        return both(one, other, "pages", a, b);
    }
    let mut text = String::new();
    for (name, mine, theirs) in [(one, a, b), (other, b, a)] {
        let theirs: HashSet<_> = theirs.iter().collect();
        let own: Vec<_> = mine.iter().filter(|page| !theirs.contains(page)).collect();
        writeln!(text, "{} pages of {name}, {} of them otherwise than in the other:", mine.len(), own.len())?;
        own.iter().take(MANY).try_for_each(|page| writeln!(text, "    {page:x?}"))?;
    }
    Ok(text)
}

/// What both say, once if it is the same.
fn both<T: PartialEq + fmt::Debug>(
    one: &str,
    other: &str,
    what: &str,
    a: &[T],
    b: &[T],
) -> Result<String, fmt::Error> {
    let mut text = String::new();
    if a == b {
        writeln!(text, "{what}, the same in both:")?;
        a.iter().try_for_each(|item| writeln!(text, "    {item:x?}"))?;
        return Ok(text);
    }
    for (name, items) in [(one, a), (other, b)] {
        writeln!(text, "{what} of {name}:")?;
        items.iter().try_for_each(|item| writeln!(text, "    {item:x?}"))?;
    }
    Ok(text)
}
