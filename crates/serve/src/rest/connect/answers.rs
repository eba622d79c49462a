//! Streams of responses in envelopes, the last of which has the status and the metadata.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame};
use prost_reflect::MessageDescriptor;
use tonic::{Code, Status};
use trilane_grpc::gzip;
use trilane_transcode::{Format, connect};

use super::{
    Codec,
    envelope::{COMPRESSED, Fault, PREFIX},
    written,
};
use crate::{
    app,
    rest::{
        call::Messages,
        stream::{PIECE, piece},
    },
    services::Services,
    upstream,
};

/// The flag of the envelope that ends a stream.
const END: u8 = 2;

/// The body of such a response.
pub(super) struct Answers {
    messages: Messages,
    codec: Codec,
    output: MessageDescriptor,
    services: Arc<Services>,
    fault: Fault,
    ended: bool,
}

impl Answers {
    pub(super) fn new(
        messages: Messages,
        codec: Codec,
        output: MessageDescriptor,
        services: Arc<Services>,
        fault: Fault,
    ) -> Self {
        Self {
            messages,
            codec,
            output,
            services,
            fault,
            ended: false,
        }
    }

    fn write(&self, message: Bytes, out: &mut Vec<u8>) -> Result<(), Status> {
        let message = match self.codec.format {
            Format::Protobuf => message,
            Format::Json => written(&self.output, &message)?,
        };
        match self.codec.gzip && message.len() >= app::MIN_GZIP {
            true => envelope(COMPRESSED, &gzip::compress(&message), out),
            false => envelope(0, &message, out),
        }
        Ok(())
    }
}

/// Writes the end of a stream. A status that is OK is none.
pub(super) fn end(
    services: &Services,
    status: Option<&Status>,
    trailers: &HeaderMap,
    out: &mut Vec<u8>,
) {
    let status = status.filter(|status| status.code() != Code::Ok);
    let error = status.map(|status| {
        let (code, details) = (status.code() as u32, status.details());
        connect::error(code, status.message(), details, services.pool())
    });
    let fields = upstream::to_connect(trailers, "");
    let metadata = fields
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    envelope(END, &connect::end(error.as_deref(), metadata), out);
}

fn envelope(flags: u8, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(PREFIX + message.len());
    out.push(flags);
    // A message of a service is bounded, and JSON of it is far below 4 GiB.
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
}

impl HttpBody for Answers {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let mut out = Vec::new();
        while !this.ended && out.len() < PIECE {
            let status = match this.messages.poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => match this.write(message, &mut out) {
                    Ok(()) => continue,
                    Err(status) => Some(status),
                },
                Poll::Ready(Some(Err(status))) => Some(this.fault.or(status)),
                Poll::Ready(None) => None,
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            };
            let trailers = this.messages.trailers();
            end(&this.services, status.as_ref(), trailers, &mut out);
            this.ended = true;
        }
        piece(out)
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
