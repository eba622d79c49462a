//! The content of requests: as a whole, or as messages while it comes. Both bounded.

use std::{future::poll_fn, pin::Pin};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use hyper::body::Body as HttpBody;
use prost_reflect::DynamicMessage;
use tokio::{sync::mpsc, time::timeout};
use tonic::Status;
use trilane_transcode::{Format, Problem};

use super::{
    answer::Refusal,
    call::{self, Sent},
    cut::{Cut, Cutter},
};
use crate::{app::BoxError, connection::PATIENCE};

/// The next piece of the content.
pub(super) async fn piece<B>(body: &mut B) -> Result<Option<Bytes>, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    while !body.is_end_stream() {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        match timeout(PATIENCE, frame).await {
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Ok(Some(Err(error))) => {
                let reason: BoxError = error.into();
                return Err(Refusal::of(Status::cancelled(format!(
                    "the content broke off: {reason}"
                ))));
            }
            Ok(None) => break,
            Err(_) => {
                let status = Status::deadline_exceeded(format!(
                    "nothing of the content came for {} s",
                    PATIENCE.as_secs()
                ));
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, status));
            }
        }
    }
    Ok(None)
}

/// All of the content, which has so many bytes at most.
pub(super) async fn collect<B>(body: &mut B, most: usize) -> Result<Bytes, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let Some(first) = piece(body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = piece(body).await? else {
        return match first.len() > most {
            true => Err(too_large("the content", most)),
            false => Ok(first),
        };
    };
    let mut all = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(data) = next {
        if all.len() + data.len() > most {
            return Err(too_large("the content", most));
        }
        all.extend_from_slice(&data);
        next = piece(body).await?;
    }
    Ok(all.freeze())
}

/// Sends the messages of the content, of at most so many bytes each, to a call while they come, until it or the
/// call ends.
pub(super) async fn send<B>(
    body: &mut B,
    most: usize,
    cut: Cut,
    sender: mpsc::Sender<Sent>,
    read: impl Fn(Format, &[u8]) -> Result<DynamicMessage, Problem>,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let outcome = messages(body, Cutter::new(cut, most), &sender, &read).await;
    if let Err(refusal) = &outcome {
        // Lest the service take what came for all there is. It may have ended already.
        let _ = sender.send(Err(refusal.status().clone())).await;
    }
    outcome
}

async fn messages<B>(
    body: &mut B,
    mut cutter: Cutter,
    sender: &mpsc::Sender<Sent>,
    read: &impl Fn(Format, &[u8]) -> Result<DynamicMessage, Problem>,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut buffer = BytesMut::new();
    let mut number = 0_u64;
    loop {
        let data = piece(body).await?;
        let has_ended = data.is_none();
        buffer.extend_from_slice(&data.unwrap_or_default());
        loop {
            let next = cutter.next(&mut buffer, has_ended);
            let named = |refusal: Refusal| refusal.at(cutter.unit(), number + 1);
            let Some(content) = next.map_err(named)? else {
                break;
            };
            number += 1;
            if cutter.is_blank(&content) {
                continue;
            }
            let message = read(cutter.format(), &content)
                .map_err(|problem| Refusal::from(problem).at(cutter.unit(), number))?;
            let framed = call::frame(&trilane_grpc::encode(&message));
            if sender.send(Ok(framed)).await.is_err() {
                // Nobody takes it any more.
                return Ok(());
            }
        }
        if has_ended {
            return Ok(());
        }
    }
}

pub(super) fn too_large(what: &str, most: usize) -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        Status::resource_exhausted(format!("{what} is longer than {most} bytes")),
    )
}
