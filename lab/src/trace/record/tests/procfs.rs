use super::*;

#[test]
fn fields_are_counted_after_a_name_that_holds_anything() {
    let stat = parse_stat("12 (a ) b) S 4 5 6 7 8 9 100 11 120 13");
    assert_eq!((stat[4], stat[10], stat[12]), (4, 100, 120));
}

#[test]
fn this_process_has_an_image_and_a_family() {
    let own = std::process::id();
    let this = fields_are_counted_after_a_name_that_holds_anything as *const () as u64;
    // The kernel tells the list in parts, and other tests map and unmap meanwhile: one look may miss a
    // part.
    let looks = (0..100).map(|_| image(own).unwrap());
    let image = looks.into_iter().find(|image| image.find(this).is_some() && image.check().is_ok()).unwrap();
    let here = image.find(this).unwrap();
    assert!(here.is_executable() && here.rss_kib > 0 && !here.flags.is_empty());
    assert!(image.layout.start_brk > 0 && image.layout.env_end > image.layout.arg_start);
    assert_eq!(family(own).unwrap().0, own);
    assert!(counted_faults(own).unwrap() > 0);
}
