//! Whether servers serve, as they say themselves (`grpc.health.v1`).
//!
//! As gRPC's clients do it ("Client-Side Health Checking", A17): a server is asked by one call of `Watch`,
//! which answers at once and again whenever it changes its mind. One that has no such service serves.

use std::{future::poll_fn, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::body::Body as HttpBody;
use prost::Message;
use tokio::time::sleep;
use tonic::{Code, Status, body::Body};
use tonic_health::pb::{HealthCheckResponse, health_check_response::ServingStatus};
use trilane_grpc::frame::Collector;

use super::{backoff, call::Head, content::Content, pool::Server, status::status_of};

/// What is known of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It has not said anything yet.
    Unknown,
    Fit,
    Unfit,
}

/// A request for the health of the server as a whole: the frame of an empty message.
const WHOLE_SERVER: &[u8] = &[0; 5];
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Largest answer in bytes; two would do.
const LARGEST: usize = 1024;

/// Asks a server until its task is aborted.
pub(super) fn ask(server: &Arc<Server>) {
    // The server leaves by ending the task.
    let asking = tokio::spawn(watch(server.clone()));
    server.asks_by(asking.abort_handle());
}

async fn watch(server: Arc<Server>) {
    let mut failures = 0;
    loop {
        let status = match once(&server, &mut failures).await {
            Ok(()) => Status::unavailable("the answer has ended"),
            Err(status) => status,
        };
        if status.code() == Code::Unimplemented {
            server.set_health(Health::Fit);
            return;
        }
        server.set_health(Health::Unfit);
        failures += 1;
        sleep(backoff::after(failures)).await;
    }
}

/// One call, to its end. It has not failed where something came of it.
async fn once(server: &Arc<Server>, failures: &mut u32) -> Result<(), Status> {
    let mut fields = http::HeaderMap::new();
    super::fields::make_call(&mut fields);
    let head = Head::new(Uri::from_static(WATCH), fields)?;
    let content = Full::new(Bytes::from_static(WHOLE_SERVER));
    let content = Arc::new(Content::new(Body::new(content), None));
    let called = server.call(&head, &content, &mut None).await;
    let response = called.map_err(|failure| failure.into_status())?;
    if let Some(status) = status_of(response.headers()) {
        return Err(status);
    }
    let mut body = response.into_body();
    let mut messages = Collector::new(LARGEST);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) => {
                let mut said = None;
                let fed = messages.feed(&data, |_, message| said = Some(serves(message)));
                fed.map_err(|error| Status::internal(format!("no message of gRPC: {error}")))?;
                if let Some(serves) = said {
                    *failures = 0;
                    server.set_health(match serves {
                        true => Health::Fit,
                        false => Health::Unfit,
                    });
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return status_of(&trailers).map_or(Ok(()), Err);
            }
        }
    }
    Ok(())
}

fn serves(message: &[u8]) -> bool {
    HealthCheckResponse::decode(message)
        .is_ok_and(|response| response.status() == ServingStatus::Serving)
}
