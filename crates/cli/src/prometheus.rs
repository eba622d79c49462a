//! `--prometheus ADDRESS`: what a run has measured so far, for Prometheus to fetch.

use std::convert::Infallible;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::{self, Data, Metric, PREFIX, Sample, Value};

/// The type of the text (OpenMetrics 1.0).
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The numbers that are fetched. They change with each second of the measured part.
#[derive(Debug)]
pub(crate) struct Metrics(Latest);

/// Those of the last second that is over; none before the first.
#[derive(Clone, Debug, Default)]
struct Latest(Arc<Mutex<Arc<Vec<Metric>>>>);

/// Parses `:PORT` and `ADDRESS:PORT`; without an address it is one that only this machine reaches.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let full = match text.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    full.parse().map_err(|_| {
        format!("{text:?} is not an address with a port: write for example :9090 or 0.0.0.0:9090")
    })
}

impl Metrics {
    /// Serves them at `address` until the process ends.
    pub(crate) fn serve(address: SocketAddr) -> Result<Self, String> {
        let cannot =
            |error: std::io::Error| format!("--prometheus: cannot serve at {address}: {error}");
        let latest = Latest::default();
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(latest.clone()));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let registry = Arc::new(registry);
        thread::Builder::new()
            .name("prometheus".into())
            .spawn(move || runtime.block_on(answer(listener, registry)))
            .map_err(cannot)?;
        Ok(Self(latest))
    }

    /// A second of the measured part is over.
    pub(crate) fn update(&self, metrics: &Arc<Vec<Metric>>) {
        *self.0.lock() = Arc::clone(metrics);
    }
}

impl Latest {
    fn lock(&self) -> MutexGuard<'_, Arc<Vec<Metric>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Latest {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = Arc::clone(&self.lock());
        for metric in metrics.iter() {
            let unit = metric.unit.map(|unit| match unit {
                metrics::Unit::Seconds => Unit::Seconds,
                metrics::Unit::Bytes => Unit::Bytes,
            });
            let kind = match metric.data {
                Data::Counter(_) => MetricType::Counter,
                Data::Gauge(_) => MetricType::Gauge,
                Data::Histogram(_) => MetricType::Histogram,
            };
            let (name, help) = (metric.name, metric.help);
            encode_data(
                encoder.encode_descriptor(name, help, unit.as_ref(), kind)?,
                &metric.data,
            )?;
        }
        Ok(())
    }
}

fn encode_data(mut encoder: MetricEncoder<'_>, data: &Data) -> fmt::Result {
    match data {
        Data::Counter(samples) => each(encoder, samples, |encoder, value| match value {
            Value::Whole(value) => ConstCounter::new(value).encode(encoder),
            Value::Real(value) => ConstCounter::new(value).encode(encoder),
        }),
        Data::Gauge(samples) => each(encoder, samples, |encoder, value| match value {
            Value::Whole(value) => ConstGauge::new(value).encode(encoder),
            Value::Real(value) => ConstGauge::new(value).encode(encoder),
        }),
        Data::Histogram(histogram) => {
            let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(histogram.counts.iter().copied()).collect();
            let (sum, count) = (histogram.sum, histogram.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

/// Encodes each sample, behind its label.
fn each(
    mut encoder: MetricEncoder<'_>,
    samples: &[Sample],
    encode: impl Fn(MetricEncoder<'_>, Value) -> fmt::Result,
) -> fmt::Result {
    for sample in samples {
        match &sample.label {
            Some((name, value)) => {
                let labels = [(*name, value.as_str())];
                encode(encoder.encode_family(&labels)?, sample.value)?;
            }
            // Without a label there is one.
            None => return encode(encoder, sample.value),
        }
    }
    Ok(())
}

async fn answer(listener: TcpListener, registry: Arc<Registry>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is left: one may be in a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let registry = Arc::clone(&registry);
        let service = service_fn(move |request: Request<Incoming>| {
            let response = response(&request, &registry);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service);
        // What goes wrong on it is its client's.
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

fn response(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    let plain = |status: StatusCode, text: String, (name, value): (HeaderName, &'static str)| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        let value = hyper::header::HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
        response
    };
    let text = (CONTENT_TYPE, "text/plain; charset=utf-8");
    if request.uri().path() != "/metrics" {
        let told = "the metrics are at /metrics\n".to_owned();
        return plain(StatusCode::NOT_FOUND, told, text);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allowed = (ALLOW, "GET, HEAD");
        return plain(StatusCode::METHOD_NOT_ALLOWED, String::new(), allowed);
    }
    let mut metrics = String::new();
    match encode(&mut metrics, registry) {
        Ok(()) => plain(StatusCode::OK, metrics, (CONTENT_TYPE, TEXT)),
        Err(error) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{error}\n"),
            text,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_this_machine_unless_said_otherwise() {
        assert_eq!(address(":9090").unwrap().to_string(), "127.0.0.1:9090");
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        for wrong in ["9090", "", ":", ":x", "localhost:1"] {
            assert!(address(wrong).unwrap_err().contains(":9090"), "{wrong}");
        }
    }
}
