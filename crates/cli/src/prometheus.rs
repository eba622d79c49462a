//! `--prometheus ADDRESS`: what a run has measured so far, for Prometheus to fetch.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use trilane_engine::SecondOut;

/// The type of the text (OpenMetrics 1.0).
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

type Labels = [(&'static str, &'static str); 1];
type Seconds = Gauge<f64, AtomicU64>;

/// The numbers that are fetched. They change with each second of the measured part.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<Labels, Counter>,
    latency: Family<Labels, Seconds>,
    rate: Gauge<f64, AtomicU64>,
    connections: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

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
        let (metrics, registry) = Self::new();
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
        Ok(metrics)
    }

    fn new() -> (Self, Registry) {
        let metrics = Self {
            requests: Family::default(),
            latency: Family::default(),
            rate: Gauge::default(),
            connections: Gauge::default(),
            cpu: Counter::default(),
        };
        let mut registry = Registry::with_prefix("trilane");
        registry.register(
            "requests",
            "Requests of the measured part that have ended",
            metrics.requests.clone(),
        );
        registry.register(
            "requests_per_second",
            "Requests that ended as expected in the last second",
            metrics.rate.clone(),
        );
        registry.register_with_unit(
            "service_time",
            "From the first byte sent to the end of the response, in the last second",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register(
            "connections_open",
            "Connections open at the end of the last second",
            metrics.connections.clone(),
        );
        registry.register_with_unit(
            "client_cpu",
            "Processor time of the worker threads in the measured part",
            Unit::Seconds,
            metrics.cpu.clone(),
        );
        (metrics, registry)
    }

    /// A second of the measured part is over.
    pub(crate) fn update(&self, second: &SecondOut) {
        for (result, count) in [("ok", second.ok), ("failed", second.failed)] {
            let labels = [("result", result)];
            self.requests.get_or_create(&labels).inc_by(count);
        }
        for (quantile, value) in [
            ("0.5", second.service.p50),
            ("0.9", second.service.p90),
            ("0.99", second.service.p99),
            ("1", second.service.max),
        ] {
            let labels = [("quantile", quantile)];
            // What too few responses cannot tell is not told as it was a second ago.
            match value {
                Some(value) => {
                    self.latency.get_or_create(&labels).set(value);
                }
                None => {
                    self.latency.remove(&labels);
                }
            }
        }
        self.rate.set(second.requests_per_s);
        self.connections
            .set(i64::try_from(second.open).unwrap_or(i64::MAX));
        self.cpu.inc_by(second.cpu_s);
    }
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
