//! The content of requests: as a whole, or as messages while it comes. Both bounded.

use std::{future::poll_fn, pin::Pin};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use hyper::body::Body as HttpBody;
use prost::Message;
use prost_reflect::DynamicMessage;
use tokio::{sync::mpsc, time::timeout};
use tonic::Status;
use trilane_transcode::Problem;

use super::{
    answer::{Refusal, status},
    call::{self, Sent},
};
use crate::{app::BoxError, connection::PATIENCE};

/// How content is cut into messages.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Cut {
    /// One message in each line that is not blank.
    Lines,
    /// It is one message.
    Whole,
}

impl Cut {
    pub(super) fn of(content_type: Option<&str>) -> Option<Self> {
        let kind = content_type?.split(';').next()?.trim();
        if kind.eq_ignore_ascii_case("application/x-ndjson") {
            return Some(Self::Lines);
        }
        kind.eq_ignore_ascii_case("application/json")
            .then_some(Self::Whole)
    }
}

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
    read: impl Fn(&[u8]) -> Result<DynamicMessage, Problem>,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let outcome = match cut {
        Cut::Whole => match collect(body, most).await {
            Ok(content) => pass(&content, &sender, &read).await.map(drop),
            Err(refusal) => Err(refusal),
        },
        Cut::Lines => lines(body, most, &sender, &read).await,
    };
    if let Err(refusal) = &outcome {
        // Lest the service take what came for all there is. It may have ended already.
        let _ = sender.send(Err(refusal.status().clone())).await;
    }
    outcome
}

async fn lines<B>(
    body: &mut B,
    most: usize,
    sender: &mpsc::Sender<Sent>,
    read: &impl Fn(&[u8]) -> Result<DynamicMessage, Problem>,
) -> Result<(), Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut buffer = BytesMut::new();
    let mut number = 0_u64;
    let mut searched = 0;
    loop {
        while let Some(at) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(searched + at + 1);
            searched = 0;
            number += 1;
            let taken = pass(&line, sender, read).await;
            if !taken.map_err(|refusal| refusal.in_line(number))? {
                return Ok(());
            }
        }
        searched = buffer.len();
        if buffer.len() > most {
            return Err(too_large("a line of the content", most));
        }
        match piece(body).await? {
            Some(data) => buffer.extend_from_slice(&data),
            // The last line may do without its end.
            None => {
                let taken = pass(&buffer, sender, read).await;
                return taken
                    .map(drop)
                    .map_err(|refusal| refusal.in_line(number + 1));
            }
        }
    }
}

/// Sends a message; false if nobody takes it any more.
async fn pass(
    content: &[u8],
    sender: &mpsc::Sender<Sent>,
    read: &impl Fn(&[u8]) -> Result<DynamicMessage, Problem>,
) -> Result<bool, Refusal> {
    let content = content.trim_ascii();
    if content.is_empty() {
        return Ok(true);
    }
    let message = read(content).map_err(status)?;
    let framed = call::frame(&message.encode_to_vec());
    Ok(sender.send(Ok(framed)).await.is_ok())
}

fn too_large(what: &str, most: usize) -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        Status::resource_exhausted(format!("{what} is longer than {most} bytes")),
    )
}
