//! `--otlp URL`: what a run has measured so far, sent to a collector once a second and at the end, by OTLP
//! over HTTP with messages of Protocol Buffers.
//!
//! The numbers are sums since the measured part began, so that an export that fails loses nothing that the
//! next does not bring. They come as histograms from the engine: OpenTelemetry's own instruments take one
//! value at a time, which at the rates of a load is work for a processor of its own.

mod collector;
mod encode;
mod settings;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use trilane_engine::SecondOut;
use url::Url;

use self::collector::Collector;
use self::encode::Times;
use self::settings::Settings;
pub(crate) use self::settings::endpoint;
use crate::metrics::Metric;

/// What is to be sent, and from when to when it was measured.
type Told = (Arc<Vec<Metric>>, Times);

/// Sends metrics from a thread of its own, so that a slow collector slows nothing else.
pub(crate) struct Exporter {
    seconds: Sender<Told>,
    thread: JoinHandle<Exports>,
    /// When the measured part began; none before its first second is over.
    begun: Option<SystemTime>,
}

/// How the exports went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Exports {
    tried: u64,
    failed: u64,
    /// Why the last of those that failed did.
    why: String,
}

impl Exporter {
    /// For the collector at `url`, and what the environment says of it; `target` is what is loaded.
    pub(crate) fn start(url: &Url, target: &str) -> Result<Self, String> {
        let settings = Settings::from_environment(target)?;
        let collector = Collector::new(url, &settings)?;
        let (seconds, told) = channel();
        let thread = thread::Builder::new()
            .name("otlp".into())
            .spawn(move || export_all(&told, collector, &settings))
            .map_err(|error| format!("--otlp: cannot start a thread: {error}"))?;
        Ok(Self {
            seconds,
            thread,
            begun: None,
        })
    }

    /// A second is over, and these are the numbers by its end.
    pub(crate) fn update(&mut self, metrics: &Arc<Vec<Metric>>, so_far: &SecondOut) {
        let now = SystemTime::now();
        let measured = Duration::from_secs_f64(so_far.start_s + so_far.length_s);
        let begun = *self.begun.get_or_insert_with(|| now - measured);
        let _ = self
            .seconds
            .send((Arc::clone(metrics), Times { begun, now }));
    }

    /// Waits until the last numbers have been sent, or could not be; says what went wrong.
    pub(crate) fn finish(self) -> Option<String> {
        drop(self.seconds);
        // An exporter that panicked is no reason to lose the result.
        self.thread.join().ok()?.warning()
    }
}

fn export_all(told: &Receiver<Told>, mut collector: Collector, settings: &Settings) -> Exports {
    let mut exports = Exports::default();
    while let Ok(mut latest) = told.recv() {
        // Where the collector is slower than a second, the last numbers have all that the others had.
        while let Ok(later) = told.try_recv() {
            latest = later;
        }
        let (metrics, times) = latest;
        exports.count(collector.export(encode::request(&metrics, times, settings)));
    }
    exports
}

impl Exports {
    fn count(&mut self, export: Result<(), String>) {
        self.tried += 1;
        if let Err(why) = export {
            self.failed += 1;
            self.why = why;
        }
    }

    fn warning(self) -> Option<String> {
        let Self { tried, failed, why } = self;
        (failed > 0).then(|| {
            format!(
                "--otlp: {failed} of {tried} exports failed, and the run went on; the last: {why}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_once() {
        let mut exports = Exports::default();
        exports.count(Ok(()));
        assert_eq!(Exports::default().warning(), None);
        exports.count(Err("refused".into()));
        exports.count(Err("HTTP status 503".into()));
        let told = "--otlp: 2 of 3 exports failed, and the run went on; the last: HTTP status 503";
        assert_eq!(exports.warning().as_deref(), Some(told));
    }
}
