//! The traces in the repository: whole, small, and what the calls say is what the maps say.

use crate::model;
use interleaf_lab::trace::{Damage, Extent, Kind, Sys, TraceReader};
use std::fs;
use std::path::PathBuf;

fn shipped() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/traces");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "trace")).collect();
    traces.sort();
    traces
}

#[test]
fn four_traces_are_shipped_and_small() {
    assert_eq!(shipped().len(), 4);
    for path in shipped() {
        let bytes = fs::metadata(&path).unwrap().len();
        assert!(bytes < 300_000, "{} has {bytes} bytes", path.display());
    }
}

#[test]
fn shipped_traces_are_whole_and_their_accounts_balance() {
    for path in shipped() {
        let (header, _, footer) = TraceReader::open(&path).unwrap().read_all().unwrap();
        assert_eq!((header.extent, footer.lost, footer.account.unexplained), (Extent::Whole, 0, 0));
        assert_eq!(footer.account.filled_otherwise, 0);
        assert!(footer.processes.iter().all(|p| p.final_map), "{}", path.display());
    }
}

#[test]
fn calls_of_shipped_traces_lead_to_their_final_maps_and_every_fault_has_its_mapping() {
    for path in shipped() {
        let (header, events, _) = TraceReader::open(&path).unwrap().read_all().unwrap();
        let complaints = model::check(&header, &events);
        assert!(complaints.is_empty(), "{}: {:#?}", path.display(), &complaints[..complaints.len().min(5)]);
    }
}

#[test]
fn the_model_complains_if_a_call_is_missing() {
    for path in shipped() {
        let (header, mut events, _) = TraceReader::open(&path).unwrap().read_all().unwrap();
        let munmap = events.iter().rposition(|e| matches!(&e.kind, Kind::Call(c) if c.sys == Sys::Munmap));
        events.remove(munmap.expect("a trace without munmap"));
        assert!(!model::check(&header, &events).is_empty(), "{}", path.display());
    }
}

#[test]
fn a_byte_changed_anywhere_in_a_shipped_trace_is_refused() {
    let sound = fs::read(&shipped()[2]).unwrap();
    for at in (0..sound.len()).step_by(17) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        let read = TraceReader::new(&bytes[..]).and_then(TraceReader::read_all);
        let damage: Damage = read.expect_err("a changed byte was accepted");
        assert!(damage.offset <= at as u64, "{damage} for byte {at}");
    }
}
