//! Pages that are written as a whole, zeroed or copied to: which CPU did so last, and how long ago.

use super::addresses::LINES_OF_PAGE;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The lines of it that have a record.
    lines: u64,
    /// The CPU that wrote all of it last, plus 1; 0: none.
    writer: u32,
    /// Number of that write among the CPU's own.
    write: u32,
}

/// Whether a page was in the caches of the CPU that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heat {
    /// It was.
    Warm,
    /// It was not.
    Cold,
}

/// All pages, by number.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    /// Pages that each CPU has written.
    written: Vec<u32>,
}

impl Pages {
    pub(super) fn new(nr_cpus: usize) -> Self {
        Self { pages: Vec::new(), written: vec![0; nr_cpus] }
    }

    /// Notes that a CPU writes all of a page. A page is warm if it was one of the `warm_pages` that this CPU
    /// wrote last.
    pub(super) fn write(&mut self, page: u32, cpu: u32, warm_pages: u64) -> Heat {
        let write = self.written[cpu as usize] + 1;
        self.written[cpu as usize] = write;
        let page = self.page(page);
        let is_warm = page.writer == cpu + 1 && u64::from(write - page.write) <= warm_pages;
        (page.writer, page.write) = (cpu + 1, write);
        if is_warm { Heat::Warm } else { Heat::Cold }
    }

    /// The numbers of the lines of a page that have a record.
    pub(super) fn known_lines(&self, page: u32) -> impl Iterator<Item = u32> + use<> {
        let mut left = self.pages.get(page as usize).map_or(0, |page| page.lines);
        std::iter::from_fn(move || {
            let within = left.checked_ilog2()?;
            left ^= 1 << within;
            Some(page * LINES_OF_PAGE + within)
        })
    }

    /// Notes that a line has a record from now on. The CPU that wrote its page last.
    pub(super) fn add_line(&mut self, line: u32) -> Option<u32> {
        let page = self.page(line / LINES_OF_PAGE);
        page.lines |= 1 << (line % LINES_OF_PAGE);
        page.writer.checked_sub(1)
    }

    fn page(&mut self, number: u32) -> &mut Page {
        let at = number as usize;
        if at >= self.pages.len() {
            self.pages.resize((at + 1).next_power_of_two(), Page::default());
        }
        &mut self.pages[at]
    }
}
