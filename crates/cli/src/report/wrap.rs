//! Lines that are longer than a terminal is wide.

/// Where the text behind a label begins.
const LABEL: usize = 13;

/// Breaks long lines between words; what follows stands below the text of its line.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    let mut out = String::new();
    for line in text.lines() {
        wrap(&mut out, line, width);
    }
    out
}

fn wrap(out: &mut String, line: &str, width: usize) {
    let indent = indent(line, width);
    let mut rest = line.trim_end().to_owned();
    loop {
        let place = break_at(&rest, indent, width);
        let Some(at) = place.filter(|_| rest.chars().count() > width) else {
            out.push_str(&rest);
            out.push('\n');
            return;
        };
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        rest = format!("{:indent$}{}", "", rest[at..].trim_start());
    }
}

/// The columns that are left free before what follows.
fn indent(line: &str, width: usize) -> usize {
    let chars: Vec<char> = line.chars().take(LABEL + 1).collect();
    let has_label = chars.len() > LABEL
        && chars[0].is_alphabetic()
        && chars[LABEL - 1] == ' '
        && chars[LABEL] != ' '
        && line[..LABEL.min(line.len())].trim_end().len() < LABEL;
    match has_label && width >= 4 * LABEL {
        true => LABEL,
        false => chars.iter().take_while(|c| **c == ' ').count() + 2,
    }
}

/// The last blank that the width allows, or the first one behind it, where the text may be broken.
fn break_at(text: &str, indent: usize, width: usize) -> Option<usize> {
    let blanks = text.char_indices().enumerate();
    let mut blanks = blanks.filter(|&(column, (_, c))| c == ' ' && column > indent);
    let mut best = None;
    for (column, (at, _)) in &mut blanks {
        if column > width && best.is_some() {
            break;
        }
        // Behind the last word there is nothing to break before.
        if !text[at..].trim_start().is_empty() {
            best = Some(at);
        }
        if column > width {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "✓ 54,366 requests/s, p50 0.88 ms, p99 7.0 ms\n";
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped(text, Some(46)), text);
        assert_eq!(
            wrapped(text, Some(30)),
            "✓ 54,366 requests/s, p50 0.88\n  ms, p99 7.0 ms\n"
        );
        assert_eq!(
            wrapped("  a word of some length\n", Some(16)),
            "  a word of some\n    length\n"
        );
    }

    #[test]
    fn what_follows_stands_below_the_text_behind_a_label() {
        let line = "Load         closed model, 64 in flight: 64 connections × 1 stream, 1 thread\n";
        assert_eq!(
            wrapped(line, Some(55)),
            "Load         closed model, 64 in flight: 64 connections\n             × 1 stream, 1 thread\n"
        );
        assert_eq!(
            wrapped(line, Some(41)),
            "Load         closed model, 64 in flight:\n  64 connections × 1 stream, 1 thread\n"
        );
    }

    #[test]
    fn a_word_that_does_not_fit_stays_whole() {
        let line = "Target       http://example.example/a/path/that/is/long\n";
        assert_eq!(
            wrapped(line, Some(20)),
            "Target\n  http://example.example/a/path/that/is/long\n"
        );
    }
}
