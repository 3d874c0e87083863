use super::*;
use crate::measure::Options;

#[test]
fn every_section_shows_a_figure_or_text() {
    for section in SECTIONS {
        let shown = section.show(&Options::small()).unwrap_or_else(|e| panic!("{}: {e}", section.title));
        assert!(!shown.figures.is_empty() || !shown.text.is_empty(), "{} shows nothing", section.title);
    }
}

#[test]
fn a_claim_follows_the_worst_verdict() {
    use crate::measure::bench::Verdict;
    let section = Section { title: "t", claim: "c", run: |_| Ok(()), command: "interleaf list" };
    let shown = |verdicts: &[(&str, Verdict)]| {
        let mut out = Out::new(&Options::small());
        verdicts.iter().for_each(|&(what, verdict)| out.judge(what, Some(verdict)));
        out.shown(&section)
    };
    assert_eq!(shown(&[]).verdict, None);
    let yes = shown(&[("a", Verdict::Yes)]);
    assert!(yes.because.is_empty() && yes.text(1, 1).contains("here: so it is"));
    let open = shown(&[("a", Verdict::Yes), ("b", Verdict::CannotTell)]);
    assert!(open.text(1, 1).contains("here: this run cannot tell: b"));
    let no = shown(&[("a", Verdict::No), ("b", Verdict::CannotTell)]);
    assert_eq!((no.verdict, no.because.len()), (Some(Verdict::No), 1));
    assert!(no.text(1, 1).contains("here: NOT so: a"));
}
