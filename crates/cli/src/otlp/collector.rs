//! The collector that exports go to, over one connection of our own client at a time.

use std::fs;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use trilane_client::{
    ConnectOptions, Connection, Error, Flush, Submission, Tls, TlsOptions, Version, Words,
};
use trilane_wire::Content;
use url::{Position, Url};

use super::settings::Settings;
use crate::patient::Patient;

/// How long one export may take, with its connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Read at once, and kept of an answer, in bytes.
const PIECE: usize = 16 * 1024;

pub(super) struct Collector {
    connect: ConnectOptions,
    connection: Option<Connection>,
    /// Path and query.
    path: String,
    fields: Vec<(String, String)>,
}

impl Collector {
    pub(super) fn new(url: &Url, settings: &Settings) -> Result<Self, String> {
        let secure = url.scheme() == "https";
        let connect = ConnectOptions {
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or(0),
            secure,
            versions: vec![Version::H1],
            tls: secure.then(|| tls(settings)).transpose()?,
            server_name: None,
            timeout: Some(PATIENCE),
            source: None,
            proxy: None,
            race: Duration::ZERO,
            driven: false,
            unix: None,
            addresses: None,
            ech: None,
            streams: None,
        };
        let own = [
            ("content-type", "application/x-protobuf"),
            ("user-agent", concat!("trilane/", env!("CARGO_PKG_VERSION"))),
        ];
        let mut fields: Vec<_> = own
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (name, value) in &settings.headers {
            let name = name.to_ascii_lowercase();
            fields.retain(|(given, _)| *given != name);
            fields.push((name, value.clone()));
        }
        Ok(Self {
            connect,
            connection: None,
            path: url[Position::BeforePath..Position::AfterQuery].to_owned(),
            fields,
        })
    }

    /// Sends the content of one export; says why the collector does not have it.
    pub(super) fn export(&mut self, content: Vec<u8>) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let alive = self.connection.take();
        let alive = alive.filter(|connection| connection.is_alive() && connection.is_free());
        let connection = match alive {
            Some(connection) => connection,
            None => {
                Connection::connect(&self.connect, &mut Patient).map_err(|error| error.message)?
            }
        };
        let (status, answer) = self
            .ask(&connection, content, deadline)
            .map_err(|error| error.message)?;
        self.connection = Some(connection);
        judge(status, &answer)
    }

    /// Status and content of the answer.
    fn ask(
        &self,
        connection: &Connection,
        content: Vec<u8>,
        deadline: Instant,
    ) -> Result<(u16, Vec<u8>), Error> {
        let left = || Some(deadline.saturating_duration_since(Instant::now()));
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let exchange = connection.submit(Submission {
            method: "POST",
            target: &self.path,
            authority: None,
            fields: &fields,
            content: Content::Whole(content.into()),
            flush: Flush::Now,
            timed: false,
        })?;
        let status = exchange.head(left(), &mut Patient)?;
        let mut answer = Vec::new();
        loop {
            let piece = exchange.read_some(PIECE, left(), &mut Patient)?;
            if piece.is_empty() {
                return Ok((status, answer));
            }
            if answer.len() < PIECE {
                answer.extend(piece);
            }
        }
    }
}

/// Whether the collector has taken all of it.
fn judge(status: u16, answer: &[u8]) -> Result<(), String> {
    if !(200..300).contains(&status) {
        return Err(format!("the collector answered with HTTP status {status}"));
    }
    // What is no message of OTLP, as of a proxy, tells of nothing that was refused.
    let answer = ExportMetricsServiceResponse::decode(answer).unwrap_or_default();
    match answer.partial_success {
        Some(partial) if partial.rejected_data_points > 0 => Err(format!(
            "the collector refused {} numbers: {}",
            partial.rejected_data_points, partial.error_message
        )),
        _ => Ok(()),
    }
}

/// A collector is trusted by a variable, and has no name and no client certificate of its own.
const WORDS: Words = Words {
    authority: "OTEL_EXPORTER_OTLP_CERTIFICATE=FILE",
    unchecked: None,
    ..Words::LOAD
};

fn tls(settings: &Settings) -> Result<Tls, String> {
    let file = settings.certificate.as_ref();
    let authorities = file.map(|file| match fs::read(file) {
        Ok(contents) => Ok((file.display().to_string(), contents)),
        Err(error) => Err(format!(
            "--otlp: OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read {}: {error}",
            file.display()
        )),
    });
    Tls::new(TlsOptions {
        authorities: authorities.into_iter().collect::<Result<_, _>>()?,
        platform: true,
        words: Some(WORDS),
        ..TlsOptions::default()
    })
    .map_err(|error| format!("--otlp: {}", error.message))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;

    use super::*;

    #[test]
    fn what_a_collector_refuses_is_told() {
        assert_eq!(judge(200, b""), Ok(()));
        assert_eq!(judge(202, b"<html>"), Ok(()));
        assert!(judge(404, b"").unwrap_err().contains("404"));
        let answer = ExportMetricsServiceResponse {
            partial_success: Some(ExportMetricsPartialSuccess {
                rejected_data_points: 3,
                error_message: "no histograms".into(),
            }),
        };
        let error = judge(200, &answer.encode_to_vec()).unwrap_err();
        assert_eq!(error, "the collector refused 3 numbers: no histograms");
    }
}
