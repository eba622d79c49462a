//! Which paragraphs a report has.

use super::{Layout, wrapped};

/// The last rank of what may be left out of a report that is not verbose.
pub(super) const LAST: u8 = 3;

/// Whether a paragraph is in a report that is not verbose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Always,
    /// As long as there are lines left for it, the lowest first.
    IfRoom(u8),
    Verbose,
}

/// A part of a report.
pub(super) struct Paragraph {
    /// What `-v` is said to bring, where it is left out; empty for a row of a table.
    name: &'static str,
    need: Need,
    /// Whether an empty line is before it.
    pub(super) apart: bool,
    /// Its lines, each with its end.
    pub(super) text: String,
}

impl Paragraph {
    fn lines(&self, has_gaps: bool) -> usize {
        self.text.lines().count() + usize::from(self.apart && has_gaps)
    }
}

/// The paragraphs that are not empty, in their order.
pub(super) struct Paragraphs {
    pub(super) layout: Layout,
    pub(super) all: Vec<Paragraph>,
}

impl Paragraphs {
    pub(super) fn new(layout: Layout) -> Self {
        let all = Vec::new();
        Self { layout, all }
    }

    /// Adds what `write` writes, unless it is nothing.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        need: Need,
        apart: bool,
        write: impl FnOnce(&mut String) -> std::fmt::Result,
    ) {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write(&mut text);
        if !text.is_empty() {
            let text = wrapped(&text, self.layout.width);
            self.all.push(Paragraph {
                name,
                need,
                apart,
                text,
            });
        }
    }
}

/// The paragraphs that fit into so many lines, the names of the others, and whether there is room for empty lines.
pub(super) fn chosen(
    paragraphs: Vec<Paragraph>,
    lines: usize,
) -> (Vec<Paragraph>, Vec<&'static str>, bool) {
    let total = |most: u8, has_gaps| {
        let wanted = paragraphs.iter().filter(|paragraph| match paragraph.need {
            Need::Always => true,
            Need::IfRoom(rank) => rank <= most,
            Need::Verbose => false,
        });
        wanted.map(|each| each.lines(has_gaps)).sum::<usize>()
    };
    // Empty lines go before anything of what was measured does.
    let has_gaps = total(LAST - 1, true) <= lines;
    let always = paragraphs.iter();
    let always = always.filter(|paragraph| paragraph.need == Need::Always);
    let always: usize = always.map(|each| each.lines(has_gaps)).sum();
    let mut left = lines.saturating_sub(always);
    let mut is_taken: Vec<_> = paragraphs
        .iter()
        .map(|paragraph| paragraph.need == Need::Always)
        .collect();
    for rank in 0..=LAST {
        for (at, paragraph) in paragraphs.iter().enumerate() {
            let lines = paragraph.lines(has_gaps);
            if paragraph.need == Need::IfRoom(rank) && lines <= left {
                left -= lines;
                is_taken[at] = true;
            }
        }
    }
    let mut left_out = vec!["all percentiles"];
    let mut shown = Vec::new();
    for (paragraph, is_taken) in paragraphs.into_iter().zip(is_taken) {
        match is_taken {
            true => shown.push(paragraph),
            false if paragraph.name.is_empty() => (),
            false => left_out.push(paragraph.name),
        }
    }
    (shown, left_out, has_gaps)
}
