//! For which lines two operations contend, pinned; and what speculation saves, counted.

use interleaf::space::Path;
use interleaf_check::conflicts::{Cost, Fights, Operation, Pair, Scene, Where, fight, of_faults};
use std::collections::{BTreeMap, BTreeSet};

/// Faults, or calls, of each CPU.
const EACH: u64 = 10_000;
/// Operations of each CPU in a scene.
const EACH_OF_SCENE: u64 = 1000;
const PINNED: &str = include_str!("conflicts.txt");

/// The names that are pinned under a heading.
fn pinned(heading: &str) -> BTreeSet<String> {
    let heading = format!("[{heading}]");
    let section = PINNED.lines().skip_while(|line| *line != heading).skip(1);
    let names = section.take_while(|line| !line.starts_with('['));
    names.filter(|line| !line.is_empty() && !line.starts_with('#')).map(String::from).collect()
}

/// What differs from the pinned names: a new conflict fails, and one that is gone must be taken out of the
/// list, so that the list only gets shorter.
fn unlike_pinned(heading: &str, fights: &Fights) -> Option<String> {
    println!("[{heading}]\n{fights}");
    let (pinned, seen) = (pinned(heading), fights.by_name.keys().cloned().collect());
    let new: Vec<_> = BTreeSet::difference(&seen, &pinned).collect();
    if !new.is_empty() {
        return Some(format!("{heading} fight for something new: {new:#?}\n{}", fights.in_full));
    }
    // Some assertions of debug builds read what release builds leave alone.
    let gone: Vec<_> = pinned.difference(&seen).collect();
    let may_be_gone = cfg!(not(debug_assertions));
    let stays = may_be_gone || gone.is_empty();
    (!stays).then(|| format!("{heading}: take out of conflicts.txt: {gone:#?}"))
}

fn fights_for_no_more_than_pinned(pair: Pair) {
    for path in [Path::Speculative, Path::Locked] {
        let heading = format!("{}, {}", pair.name(), path.name());
        let unlike = unlike_pinned(&heading, &fight(pair, path, EACH));
        assert!(unlike.is_none(), "{}", unlike.unwrap_or_default());
    }
}

/// All scenes are played before one fails: a change shows in many.
fn scenes_fight_for_no_more_than_pinned(place: Where) {
    let played = Scene::all(place).map(|scene| (scene.name(), scene.fight(Path::Speculative, EACH_OF_SCENE)));
    let unlike: Vec<_> = played.filter_map(|(name, fights)| unlike_pinned(&name, &fights)).collect();
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

#[test]
fn cpus_in_two_spaces_fight_for_no_more_than_pinned() {
    scenes_fight_for_no_more_than_pinned(Where::TwoSpaces);
}

/// What is left is the epoch, which moves once for each lot of garbage.
#[test]
fn two_spaces_write_common_lines_less_than_once_in_four_pairs_of_mmaps() {
    for operation in [Operation::MapUnmap, Operation::Touch] {
        let scene = Scene { first: operation, second: operation, place: Where::TwoSpaces };
        let fights = scene.fight(Path::Speculative, EACH_OF_SCENE);
        let writes: u64 = fights.written_by_both().map(|(_, fight)| fight.writes).sum();
        assert!(4 * writes < EACH_OF_SCENE, "{writes} in {EACH_OF_SCENE}, {}:\n{fights}", scene.name());
    }
}

#[test]
fn cpus_in_one_space_fight_for_no_more_than_pinned() {
    scenes_fight_for_no_more_than_pinned(Where::OneSpace);
}

#[test]
fn two_faults_in_one_mapping_fight_for_no_more_than_pinned() {
    fights_for_no_more_than_pinned(Pair::FaultsInOneMapping);
}

#[test]
fn two_faults_in_different_mappings_fight_for_no_more_than_pinned() {
    fights_for_no_more_than_pinned(Pair::FaultsInTwoMappings);
}

#[test]
fn a_fault_and_an_mmap_elsewhere_fight_for_no_more_than_pinned() {
    fights_for_no_more_than_pinned(Pair::FaultAndMmapElsewhere);
}

/// What `more` has more of than `less`, by name.
fn excess(more: &BTreeMap<String, u64>, less: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let beyond = |(name, count): (&String, &u64)| {
        let other = less.get(name).copied().unwrap_or(0);
        (*count > other).then(|| (name.clone(), count - other))
    };
    more.iter().filter_map(beyond).collect()
}

#[test]
fn speculation_saves_exactly_the_two_updates_of_the_lock_and_writes_no_other_line() {
    let [speculative, locked]: [Cost; 2] =
        [Path::Speculative, Path::Locked].map(|path| of_faults(path, EACH));
    println!("speculative {speculative:#?}\nlocked {locked:#?}");
    let lock = ("the space's lock".to_string(), 2 * EACH);
    assert_eq!(excess(&locked.updates_by_name, &speculative.updates_by_name), [lock]);
    assert_eq!(locked.updates - speculative.updates, 2 * EACH);
    assert_eq!(excess(&speculative.updates_by_name, &locked.updates_by_name), []);
    assert_eq!(excess(&speculative.lines_by_name, &locked.lines_by_name), []);
    let counters = |(name, _): &(String, u64)| name == "a CPU's counters";
    let others = excess(&speculative.writes_by_name, &locked.writes_by_name);
    assert!(others.iter().all(counters), "speculation writes more than one counter more: {others:?}");
}
