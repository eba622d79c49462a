//! Envelopes of requests: a byte of flags, four of length, the message. They become frames of gRPC,
//! which differ in nothing but the flags.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame};
use prost_reflect::MessageDescriptor;
use tonic::Status;
use trilane_transcode::Format;

use super::{Codec, encoded, gunzip};
use crate::{app::BoxError, rest::call};

/// Bytes before a message.
pub(super) const PREFIX: usize = 5;
/// The flag of a message that is compressed.
pub(super) const COMPRESSED: u8 = 1;

/// Why the caller's messages ended too early. A call that fails by that is told as such: what it fails
/// with says no more than that its requests broke off.
#[derive(Clone, Default)]
pub(super) struct Fault(Arc<OnceLock<Status>>);

impl Fault {
    pub(super) fn or(&self, status: Status) -> Status {
        self.0.get().cloned().unwrap_or(status)
    }
}

/// The messages of a request, in frames of gRPC.
pub(super) struct Envelopes<B> {
    body: B,
    codec: Codec,
    input: MessageDescriptor,
    /// What has come of messages that are not complete.
    buffer: BytesMut,
    ended: bool,
    fault: Fault,
}

impl<B> Envelopes<B>
where
    B: HttpBody<Data = Bytes, Error = BoxError> + Unpin,
{
    pub(super) fn new(body: B, codec: Codec, input: MessageDescriptor, fault: Fault) -> Self {
        Self {
            body,
            codec,
            input,
            buffer: BytesMut::new(),
            ended: false,
            fault,
        }
    }

    /// The frame of the one message that there is.
    pub(super) async fn only(&mut self) -> Result<Bytes, Status> {
        let first = poll_fn(|cx| self.poll_next(cx)).await.transpose()?;
        let first = first
            .ok_or_else(|| Status::unimplemented("the method takes one message; none came"))?;
        match poll_fn(|cx| self.poll_next(cx)).await.transpose()? {
            None => Ok(first),
            Some(_) => Err(Status::unimplemented(
                "the method takes one message; several came",
            )),
        }
    }

    /// The next frame; an error is the last thing that comes.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        loop {
            match self.take() {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(None) if self.ended && self.buffer.is_empty() => return Poll::Ready(None),
                Ok(None) if self.ended => {
                    let status = Status::internal("the content ends within an envelope");
                    return Poll::Ready(Some(Err(self.fail(status))));
                }
                Ok(None) => {}
                Err(status) => return Poll::Ready(Some(Err(self.fail(status)))),
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(self.fail(broken_off(error)))));
                }
                None => self.ended = true,
            }
        }
    }

    fn fail(&mut self, status: Status) -> Status {
        self.buffer.clear();
        self.ended = true;
        // There is one: nothing is read behind it.
        let _ = self.fault.0.set(status.clone());
        status
    }

    /// The frame of a message that is complete.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((&[flags, ref length @ ..], _)) = self.buffer.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        let is_compressed = match flags {
            0 => false,
            COMPRESSED if self.codec.gunzip => true,
            COMPRESSED => {
                return Err(Status::internal(
                    "a message is compressed, but connect-content-encoding does not say how",
                ));
            }
            _ => {
                return Err(Status::internal(format!(
                    "an envelope of a request has the flags {flags:#04x}, where 0 or 1 is known"
                )));
            }
        };
        let most = self.codec.most;
        if length > most {
            return Err(Status::resource_exhausted(format!(
                "a message of {length} bytes; {most} are the most"
            )));
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        if !is_compressed && self.codec.format == Format::Protobuf {
            // It is a frame already.
            return Ok(Some(self.buffer.split_to(PREFIX + length).freeze()));
        }
        self.buffer.advance(PREFIX);
        let mut message = self.buffer.split_to(length).freeze();
        if is_compressed && !message.is_empty() {
            message = gunzip(&message, most)?;
        }
        if self.codec.format == Format::Json {
            message = encoded(&self.input, &message)?;
        }
        Ok(Some(call::frame(&message)))
    }
}

impl<B> HttpBody for Envelopes<B>
where
    B: HttpBody<Data = Bytes, Error = BoxError> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.poll_next(cx)
            .map(|next| next.map(|frame| frame.map(Frame::data)))
    }
}

fn broken_off(error: BoxError) -> Status {
    match error.downcast::<Status>() {
        Ok(status) => *status,
        Err(error) => Status::cancelled(format!("the content broke off: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::{rpc::MAX_MESSAGE, services::Services};

    struct Pieces(VecDeque<Bytes>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// What comes of content that arrives `size` bytes at a time.
    fn frames(content: &[u8], size: usize, format: Format) -> Result<Vec<Bytes>, Status> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let method = Services::library()
            .method("/trilane.library.v1.Library/LookUpBooks")
            .unwrap();
        let codec = Codec {
            format,
            gunzip: true,
            gzip: false,
            most: MAX_MESSAGE,
        };
        let pieces = content.chunks(size).map(Bytes::copy_from_slice).collect();
        let mut envelopes = Envelopes::new(Pieces(pieces), codec, method.input(), Fault::default());
        runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(frame) = poll_fn(|cx| envelopes.poll_next(cx)).await {
                all.push(frame?);
            }
            Ok(all)
        })
    }

    fn envelope(flags: u8, message: &[u8]) -> Vec<u8> {
        let mut out = vec![flags];
        out.extend_from_slice(&(message.len() as u32).to_be_bytes());
        out.extend_from_slice(message);
        out
    }

    #[test]
    fn envelopes_become_frames_however_they_are_cut() {
        let zipped = trilane_grpc::gzip::compress(b"\x0a\x01b");
        let content = [
            envelope(0, b"\x0a\x01a"),
            envelope(1, &zipped),
            envelope(0, b""),
        ]
        .concat();
        let wanted = [
            envelope(0, b"\x0a\x01a"),
            envelope(0, b"\x0a\x01b"),
            envelope(0, b""),
        ];
        for size in [1, 3, 7, content.len()] {
            let found = frames(&content, size, Format::Protobuf).unwrap();
            assert_eq!(found, wanted, "{size}");
        }
        let json = [
            envelope(0, br#"{"name":"a"}"#),
            envelope(1, &trilane_grpc::gzip::compress(br#"{"name":"b"}"#)),
        ]
        .concat();
        let found = frames(&json, 4, Format::Json).unwrap();
        assert_eq!(found, wanted[..2]);
    }

    #[test]
    fn what_is_no_envelope_ends_the_messages() {
        use tonic::Code;
        let large = [0, 0, 64, 0, 1];
        let bomb = trilane_grpc::gzip::compress(&vec![0; MAX_MESSAGE + 1]);
        for (content, code, word) in [
            (envelope(2, b"{}"), Code::Internal, "flags 0x02"),
            (envelope(0, b"abc")[..6].to_vec(), Code::Internal, "within"),
            (vec![0, 0], Code::Internal, "within"),
            (large.to_vec(), Code::ResourceExhausted, "4194305"),
            (envelope(1, b"abc"), Code::InvalidArgument, "gzip"),
            (envelope(1, &bomb), Code::ResourceExhausted, "4194304"),
        ] {
            let status = frames(&content, 2, Format::Protobuf).unwrap_err();
            assert_eq!(status.code(), code, "{status:?}");
            assert!(status.message().contains(word), "{status:?}");
        }
        let status = frames(&envelope(0, b"{"), 2, Format::Json).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
