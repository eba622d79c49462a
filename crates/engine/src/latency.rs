//! Durations in constant memory: HdrHistogram, 3 significant digits, 1 µs to 1 h.

mod sparse;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::Serialize;

pub(crate) use self::sparse::{Merge, Sparse, with_room_for};

const LOWEST_NS: u64 = 1_000;
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Of [`Durations::steps`], in a decade.
const STEPS: f64 = 10.0;

/// A distribution of durations, recorded in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: f64,
    squares: f64,
}

impl Durations {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, 3)
            .expect("the bounds are constants that the histogram accepts");
        Self {
            histogram,
            min: u64::MAX,
            max: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        let value = ns as f64;
        self.sum += value;
        self.squares += value * value;
    }

    /// Records the same duration so many times.
    pub(crate) fn record_many(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.histogram.saturating_record_n(ns, count);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        let (value, count) = (ns as f64, count as f64);
        self.sum += value * count;
        self.squares += value * value * count;
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
        (self.min, self.max, self.sum, self.squares) = (u64::MAX, 0, 0.0, 0.0);
    }

    pub(crate) fn merge(&mut self, other: &Durations) {
        self.histogram
            .add(&other.histogram)
            .expect("all have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// All of them together, in seconds.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum / 1e9
    }

    /// The quantile in seconds, where there are samples enough: at least 10 ÷ (1 − q), METHOD's
    /// rule; for the median 1.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let needed = if q <= 0.5 { 1.0 } else { 10.0 / (1.0 - q) };
        // The subtraction is inexact: 10 ÷ (1 − 0.9) is 100.00000000000003.
        (self.count() as f64 >= needed - 1e-6).then(|| {
            seconds(
                self.histogram
                    .value_at_quantile(q)
                    .clamp(self.min, self.max),
            )
        })
    }

    pub(crate) fn summary(&self) -> Summary {
        let count = self.count();
        let mean = self.sum / count as f64;
        let variance = (self.squares / count as f64 - mean * mean).max(0.0);
        let known = count > 0;
        Summary {
            count,
            min: known.then(|| seconds(self.min)),
            mean: known.then_some(mean / 1e9),
            stdev: known.then_some(variance.sqrt() / 1e9),
            p50: self.quantile(0.5),
            p75: self.quantile(0.75),
            p90: self.quantile(0.9),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            p99_9: self.quantile(0.999),
            p99_99: self.quantile(0.9999),
            max: known.then(|| seconds(self.max)),
        }
    }

    /// HdrHistogram V2, deflated, in base64; values in nanoseconds.
    pub(crate) fn blob(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("writing to memory succeeds and the counts fit");
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    /// How many there are in each tenth of a decade: step `i` has those from 10^(i/10) µs up to the next;
    /// steps without any are left out.
    pub(crate) fn steps(&self) -> Vec<(u32, u64)> {
        let mut steps: Vec<(u32, u64)> = Vec::new();
        for value in self.histogram.iter_recorded() {
            let micros = (value.value_iterated_to() as f64 / 1e3).max(1.0);
            let (step, count) = (
                (micros.log10() * STEPS) as u32,
                value.count_since_last_iteration(),
            );
            match steps.last_mut() {
                Some((last, sum)) if *last == step => *sum += count,
                _ => steps.push((step, count)),
            }
        }
        steps
    }

    /// Lower bound in seconds and count of each of the buckets that `per_decade` logarithmic steps
    /// make, for a drawing in text.
    pub(crate) fn buckets(&self, rows: usize) -> Vec<(f64, u64)> {
        if self.count() == 0 {
            return Vec::new();
        }
        let low = self.min.max(1) as f64;
        // The tail beyond p99.9 would squeeze everything else into one row.
        let high = self.histogram.value_at_quantile(0.999).max(self.min + 1) as f64;
        let mut buckets: Vec<(f64, u64)> = (0..rows)
            .map(|row| (low * (high / low).powf(row as f64 / rows as f64) / 1e9, 0))
            .collect();
        for step in self.histogram.iter_recorded() {
            let at = step.value_iterated_to() as f64 / 1e9;
            let row = buckets
                .partition_point(|&(bound, _)| bound <= at)
                .saturating_sub(1);
            buckets[row].1 += step.count_at_value();
        }
        buckets
    }
}

/// Value, quantile and count of samples up to it, and the odds of more, of what [`Durations::blob`]
/// wrote, in the text format that HdrHistogram's plotters read (`outputPercentileDistribution`); values in
/// milliseconds. `None` where it is no such thing.
pub(crate) fn percentiles(blob: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(blob)
        .ok()?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).ok()?;
    let ms = |ns: f64| ns / 1e6;
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut counted = 0;
    for step in histogram.iter_quantiles(5) {
        counted += step.count_since_last_iteration();
        let value = ms(step.value_iterated_to() as f64);
        let quantile = step.quantile_iterated_to();
        out += &format!("{value:12.3} {quantile:14.12} {counted:10}");
        if quantile < 1.0 {
            out += &format!(" {:14.2}", 1.0 / (1.0 - quantile));
        }
        out.push('\n');
    }
    // Twice what the digits can tell apart, as a power of two.
    let sub_buckets = (2 * 10_u64.pow(histogram.sigfig().into())).next_power_of_two();
    Some(
        out + &format!(
            "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
             #[Max     = {:12.3}, Total count    = {:12}]\n\
             #[Buckets = {:12}, SubBuckets     = {:12}]\n",
            ms(histogram.mean()),
            ms(histogram.stdev()),
            ms(histogram.max() as f64),
            histogram.len(),
            histogram.buckets(),
            sub_buckets,
        ),
    )
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Statistics of a distribution, in seconds; a quantile without samples enough is empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// Smallest.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation of the samples.
    pub stdev: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 75th percentile.
    pub p75: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// 99.99th percentile.
    pub p99_99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

impl Summary {
    /// The quantiles by name, with their share of all samples.
    pub(crate) fn quantiles(&self) -> [(&'static str, f64, Option<f64>); 7] {
        [
            ("p50", 0.5, self.p50),
            ("p75", 0.75, self.p75),
            ("p90", 0.9, self.p90),
            ("p95", 0.95, self.p95),
            ("p99", 0.99, self.p99),
            ("p99.9", 0.999, self.p99_9),
            ("p99.99", 0.9999, self.p99_99),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_tenths_of_a_decade() {
        let mut durations = Durations::new();
        [900, 1_000, 2_000_000, 2_000_000, 3_600_000_000_000]
            .into_iter()
            .for_each(|ns| durations.record(ns));
        // 2 ms are 10^3.3 µs, an hour 10^9.56.
        assert_eq!(durations.steps(), [(0, 2), (33, 2), (95, 1)]);
        assert_eq!(Durations::new().steps(), []);
    }

    #[test]
    fn quantiles_need_samples() {
        let mut durations = Durations::new();
        for ns in 1..=99 {
            durations.record(ns * 1_000_000);
        }
        assert_eq!(durations.quantile(0.9), None);
        durations.record(100_000_000);
        let p90 = durations.quantile(0.9).unwrap();
        assert!((p90 - 0.09).abs() < 0.0001, "{p90}");
        assert_eq!(durations.quantile(0.99), None);
    }

    #[test]
    fn a_summary_has_exact_moments() {
        let mut durations = Durations::new();
        for ms in [10, 20, 30] {
            durations.record(ms * 1_000_000);
        }
        let summary = durations.summary();
        assert_eq!(
            (summary.count, summary.min, summary.max),
            (3, Some(0.01), Some(0.03))
        );
        assert!((summary.mean.unwrap() - 0.02).abs() < 1e-12);
        assert!((summary.stdev.unwrap() - 0.00816496580927726).abs() < 1e-12);
    }

    #[test]
    fn an_empty_summary_has_no_numbers() {
        let summary = Durations::new().summary();
        assert_eq!((summary.count, summary.mean, summary.p50), (0, None, None));
    }

    #[test]
    fn merging_adds() {
        let (mut a, mut b) = (Durations::new(), Durations::new());
        a.record(1_000_000);
        b.record(3_000_000);
        a.merge(&b);
        assert_eq!(a.count(), 2);
        assert_eq!(a.summary().max, Some(0.003));
    }
}
