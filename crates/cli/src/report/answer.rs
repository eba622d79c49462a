//! The answer on a terminal: the first lines of a report.

use super::printable;
use crate::answer::{Answer, threshold};

/// The thresholds, those that were breached first, the answer in a line, what speaks against it, and why it came so.
pub(crate) fn lead(answer: &Answer) -> String {
    let mut lines: Vec<String> = Vec::new();
    for checked in &answer.thresholds {
        let sign = if checked.holds { '✓' } else { '✗' };
        lines.push(format!("{sign} {}", threshold(checked)));
    }
    lines.push(format!("{} {}", answer.sign, answer.line));
    for doubt in &answer.confidence.doubts {
        let advice = match doubt.advice.as_str() {
            "" => String::new(),
            advice => format!(" → {advice}"),
        };
        lines.push(printable(&format!("  {}{advice}", doubt.text)));
    }
    lines.extend(answer.because.iter().map(|why| format!("  {why}")));
    lines.iter().map(|line| format!("{line}\n")).collect()
}
