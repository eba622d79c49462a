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

/// A duration in two or three digits, for sentences.
pub(crate) fn brief_time(value: f64) -> String {
    let (value, unit) = match value {
        v if v < 1e-4 => (v * 1e6, "µs"),
        v if v < 1.0 => (v * 1e3, "ms"),
        v => (v, "s"),
    };
    let digits = match value {
        v if v < 0.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A count with commas between thousands.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A rate in whole numbers, or with a digit more where it is small.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        small if small < 99.95 && small.fract() != 0.0 => format!("{small:.1}"),
        _ => thousands(per_s.round() as u64),
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
        let brief = [
            0.000_012_34,
            0.000_88,
            0.007,
            0.0124,
            0.12,
            0.999_96,
            2.0228,
            120.0,
        ]
        .map(brief_time);
        let expected = [
            "12.3 µs", "0.88 ms", "7.0 ms", "12.4 ms", "120 ms", "1000 ms", "2.0 s", "120 s",
        ];
        assert_eq!(brief, expected);
        let counts = [0, 999, 54_366, 1_000_000].map(thousands);
        assert_eq!(counts, ["0", "999", "54,366", "1,000,000"]);
        let rates = [0.0, 5.0, 12.34, 99.96, 4999.6].map(rate);
        assert_eq!(rates, ["0", "5", "12.3", "100", "5,000"]);
        assert_eq!(size(11.0), "11 B");
        assert_eq!(size(1536.0), "1.50 KiB");
    }
}
