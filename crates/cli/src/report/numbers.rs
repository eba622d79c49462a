//! Numbers with their units, and the text of others, as the text report has them.

/// A time in seconds with its unit; a dash where it is not known.
pub(crate) fn time(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), seconds)
}

/// A duration with the unit that fits.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 1e-3 => format!("{:.1} µs", v * 1e6),
        v if v < 1.0 => format!("{:.3} ms", v * 1e3),
        v => format!("{v:.3} s"),
    }
}

/// A size with the unit that fits.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (bytes.max(1.0).log2() / 10.0).floor().min(4.0);
    let number = bytes / 1024f64.powf(step);
    let digits = if step == 0.0 { 0 } else { 2 };
    format!("{number:.digits$} {}", units[step as usize])
}

pub(super) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_that_fit() {
        assert_eq!(seconds(0.000_012_34), "12.3 µs");
        assert_eq!(seconds(0.012), "12.000 ms");
        assert_eq!(seconds(2.0), "2.000 s");
        assert_eq!(size(11.0), "11 B");
        assert_eq!(size(1536.0), "1.50 KiB");
    }
}
