//! What the windows of a run say of its course: whether it failed for whole seconds, began cold or drifted.

use serde::Serialize;

use crate::outcome::WindowOut;

/// Open model: requests that were due and had not left, at the end of each tenth of a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BacklogOut {
    /// How many they were at most.
    pub at_most: u64,
    /// When that was, in seconds since the measured part began; none where there never were any.
    pub at_most_s: Option<f64>,
    /// Since when there had been some, in seconds since the measured part began.
    pub since_s: Option<f64>,
    /// How many they were at the end of the run.
    pub at_end: u64,
}

/// The seconds in which requests ended, and none of them well.
pub(crate) fn outages(windows: &[WindowOut]) -> usize {
    windows
        .chunk_by(|one, next| one.start_s.floor() == next.start_s.floor())
        .filter(|second| {
            second.iter().all(|row| row.ok == 0) && second.iter().any(|row| row.failed > 0)
        })
        .count()
}

/// How long the queue of requests that were due was, and since when; none in the closed model.
pub(crate) fn backlog(windows: &[WindowOut]) -> Option<BacklogOut> {
    let backlog = |row: &WindowOut| row.backlog.unwrap_or(0);
    let at_end = windows.last()?.backlog?;
    let mut longest = BacklogOut {
        at_most: 0,
        at_most_s: None,
        since_s: None,
        at_end,
    };
    // Since when there have been some: the end of the last window without any.
    let mut since = None;
    for row in windows {
        if backlog(row) == 0 {
            since = None;
            continue;
        }
        let since = *since.get_or_insert(row.start_s);
        if backlog(row) > longest.at_most {
            longest = BacklogOut {
                at_most: backlog(row),
                at_most_s: Some(row.start_s + row.length_s),
                since_s: Some(since),
                at_end,
            };
        }
    }
    Some(longest)
}

/// The connections that were open at the end of most windows, or more: the median. None where there are
/// no windows.
pub(crate) fn usually_open(windows: &[WindowOut]) -> Option<u64> {
    let mut open: Vec<_> = windows.iter().map(|row| row.open).collect();
    open.sort_unstable();
    open.get(open.len() / 2).copied()
}

/// Parts of a run that are compared with each other.
const PARTS: usize = 10;

/// Ok requests per second in ten parts of the run, in as many windows each; the windows that are left
/// over are the last. None where the run is shorter than a second.
fn rates(windows: &[WindowOut]) -> Option<Vec<f64>> {
    // The last may be cut. Of the others one is shorter where its run began late, or took turns.
    let cut = windows.last().is_some_and(|row| row.length_s <= 0.099);
    let size = (windows.len() - usize::from(cut)) / PARTS;
    if size == 0 {
        return None;
    }
    let rate = |part: &[WindowOut]| {
        let ok: u64 = part.iter().map(|row| row.ok).sum();
        let length: f64 = part.iter().map(|row| row.length_s).sum();
        (length > 0.0).then_some(ok as f64 / length)
    };
    windows.chunks_exact(size).take(PARTS).map(rate).collect()
}

/// The change of the rate over a run, relative to its beginning, where it is a trend: a straight line
/// explains most of it, and it exceeds 10 % of the mean.
pub(crate) fn trend(windows: &[WindowOut]) -> Option<f64> {
    let rates = rates(windows)?;
    let n = rates.len() as f64;
    let (mean_x, mean_y) = ((n - 1.0) / 2.0, rates.iter().sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in rates.iter().enumerate() {
        let (dx, dy) = (x as f64 - mean_x, y - mean_y);
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    if mean_y <= 0.0 || yy <= 0.0 {
        return None;
    }
    let rise = xy / xx * (n - 1.0);
    if xy * xy / (xx * yy) <= 0.7 || rise.abs() <= 0.1 * mean_y {
        return None;
    }
    // No rate is below 0, where a line that is fitted to a steep fall or rise may end or begin.
    let [begin, end] = [mean_y - rise / 2.0, mean_y + rise / 2.0].map(|rate| rate.max(0.0));
    Some((end - begin) / if begin > 0.0 { begin } else { mean_y })
}

/// How fast a run began and how fast it went on, in ok requests per second, where the one is less than
/// half of the other: it was not warm.
pub(crate) fn cold_start(windows: &[WindowOut]) -> Option<(f64, f64)> {
    let rates = rates(windows)?;
    let (first, rest) = rates.split_first()?;
    let mut rest = rest.to_vec();
    rest.sort_by(f64::total_cmp);
    let usual = rest[rest.len() / 2];
    let part_s = windows.iter().map(|row| row.length_s).sum::<f64>() / PARTS as f64;
    // Of fewer, chance alone may leave out half.
    (usual * part_s >= 100.0 && *first < usual / 2.0).then_some((*first, usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ok requests of windows, `each` of them alike.
    fn rows(rates: &[u64], each: usize) -> Vec<WindowOut> {
        let row = |(i, &ok)| WindowOut {
            start_s: i as f64 / 10.0,
            length_s: 0.1,
            ok,
            failed: 0,
            p50: None,
            p99: None,
            latencies: Vec::new(),
            open: 1,
            in_flight: 1,
            backlog: None,
            cpu_s: 0.0,
            server_cpu_s: None,
        };
        let repeated = rates
            .iter()
            .flat_map(|rate| std::iter::repeat_n(rate, each));
        repeated.enumerate().map(row).collect()
    }

    #[test]
    fn a_second_of_nothing_but_failures_is_an_outage() {
        let mut windows = rows(&[1000, 0, 0, 10], 10);
        assert_eq!(outages(&windows), 0, "slow responses leave seconds empty");
        windows[13].failed = 3;
        windows[33].failed = 3;
        assert_eq!(outages(&windows), 1);
    }

    #[test]
    fn a_queue_is_told_with_when_it_grew() {
        let mut windows = rows(&[1000, 1000], 5);
        assert!(backlog(&windows).is_none(), "the closed model has none");
        let mut told = |lengths: [u64; 10]| {
            for (row, length) in windows.iter_mut().zip(lengths) {
                row.backlog = Some(length);
            }
            let told = backlog(&windows).unwrap();
            let tenths = |seconds: Option<f64>| seconds.map(|s| (s * 10.0).round() as u64);
            let (at, since) = (tenths(told.at_most_s), tenths(told.since_s));
            (told.at_most, at, since, told.at_end)
        };
        assert_eq!(told([0; 10]), (0, None, None, 0));
        // It grew to the end.
        let grew = told([0, 3, 0, 0, 10, 20, 30, 40, 50, 60]);
        assert_eq!(grew, (60, Some(10), Some(4), 60));
        // A stall, of which nothing is left; and what the warm-up had left.
        let stalled = told([5, 9, 0, 100, 700, 200, 0, 0, 4, 0]);
        assert_eq!(stalled, (700, Some(5), Some(3), 0));
        let before = told([90, 80, 70, 60, 50, 40, 30, 20, 10, 5]);
        assert_eq!(before, (90, Some(1), Some(0), 5));
    }

    #[test]
    fn a_steady_fall_is_a_trend_and_noise_is_none() {
        for each in [2, 7] {
            let trend = |rates: &[u64]| trend(&rows(rates, each));
            let fall = [1000, 970, 950, 930, 900, 880, 860, 830, 800, 760];
            assert!(trend(&fall).unwrap() < -0.2);
            let noise = [1000, 1050, 980, 1020, 990, 1010, 1030, 970, 1020, 990];
            assert_eq!(trend(&noise), None);
            assert_eq!(trend(&[0; 10]), None);
        }
        assert_eq!(trend(&rows(&[1000, 500], 2)), None, "less than a second");
        // FINDINGS N17: the line falls by 168 % of the mean, and ends below 0.
        let steep = [1000, 800, 600, 450, 300, 200, 100, 50, 10, 0];
        assert_eq!(trend(&rows(&steep, 1)), Some(-1.0));
        let rise = [0, 10, 50, 100, 200, 300, 450, 600, 800, 1000];
        assert!(trend(&rows(&rise, 1)).unwrap() > 1.0);
        let half = [1000, 944, 889, 833, 778, 722, 667, 611, 556, 500];
        assert!((trend(&rows(&half, 1)).unwrap() + 0.5).abs() < 0.01);
    }

    #[test]
    fn a_slow_beginning_is_told() {
        let cold = |rates: &[u64], each| cold_start(&rows(rates, each));
        // A second of 60/s, then 3500/s.
        let found = cold(&[6, 350, 350, 350, 350], 10).unwrap();
        assert_eq!((found.0.round(), found.1.round()), (60.0, 3500.0));
        assert!(cold(&[40, 200, 200, 200, 200, 200, 200, 200, 200, 200], 1).is_some());
        assert_eq!(cold(&[180; 10], 2), None);
        // One slow part later is no beginning; and a few requests are no rate.
        assert_eq!(
            cold(&[200, 10, 200, 200, 200, 200, 200, 200, 200, 200], 1),
            None
        );
        assert_eq!(cold(&[1, 9, 9, 9, 9, 9, 9, 9, 9, 9], 1), None);
    }
}
