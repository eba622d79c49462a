//! The receiving half of a QUIC stream.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h3::{
    error::Code,
    quic::{self, StreamErrorIncoming, StreamId},
};
use quinn::ReadError;
use tokio_util::task::AbortOnDropHandle;

use super::{lost, stream_id, varint};
use crate::h3::guard::{Guard, Refused};

/// The receiving half.
pub(in crate::h3) struct RecvStream {
    id: StreamId,
    /// `None` once it is [`Self::encoder`]'s.
    quinn: Option<quinn::RecvStream>,
    guard: Guard,
    /// Why nothing more is read, if that is.
    refused: Option<Code>,
    /// Of a unidirectional stream, some of which may close the connection.
    connection: Option<quinn::Connection>,
    /// Reads what a QPACK encoder says, of which h3 reads the stream's type only.
    encoder: Option<AbortOnDropHandle<()>>,
}

impl RecvStream {
    pub(super) fn new(quinn: quinn::RecvStream, guard: Guard) -> Self {
        Self {
            id: stream_id(quinn.id()),
            quinn: Some(quinn),
            guard,
            refused: None,
            connection: None,
            encoder: None,
        }
    }

    /// A stream that the peer opened, of the connection that it may close.
    pub(super) fn unidirectional(quinn: quinn::RecvStream, connection: quinn::Connection) -> Self {
        Self {
            connection: Some(connection),
            ..Self::new(quinn, Guard::of_unidirectional())
        }
    }

    /// Why nothing more is read, if that is.
    pub(super) fn refused(&self) -> Option<Code> {
        self.refused
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let Some(quinn) = &mut self.quinn else {
            return Poll::Pending;
        };
        // The future holds no state of its own: dropping it while it waits loses nothing.
        let chunk = ready!(pin!(quinn.read_chunk(usize::MAX, true)).poll(cx));
        let bytes = match chunk {
            Ok(Some(chunk)) => chunk.bytes,
            Ok(None) => return Poll::Ready(Ok(None)),
            Err(error) => return Poll::Ready(Err(read_error(error))),
        };
        let checked = self.guard.check(&bytes);
        self.refused = match checked {
            Err(Refused::Frame) => Some(Code::H3_EXCESSIVE_LOAD),
            Err(Refused::Section) => Some(Code::H3_MESSAGE_ERROR),
            Err(Refused::Instruction) | Ok(()) => None,
        };
        if let Some(code) = self.refused {
            let error_code = code.value();
            self.stop_sending(error_code);
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        if self.guard.is_of_encoder()
            && let Some((quinn, connection)) = self.quinn.take().zip(self.connection.take())
        {
            let guard = std::mem::replace(&mut self.guard, Guard::of_unidirectional());
            let following = tokio::spawn(async move {
                let code = follow_encoder(checked, quinn, guard).await;
                if let Some(code) = code {
                    connection.close(varint(code.value()), b"");
                }
            });
            self.encoder = Some(AbortOnDropHandle::new(following));
        }
        Poll::Ready(Ok(Some(bytes)))
    }

    fn stop_sending(&mut self, error_code: u64) {
        if let Some(quinn) = &mut self.quinn {
            // Fails on a stream that has ended, which needs no stopping.
            let _ = quinn.stop(varint(error_code));
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

/// Reads a QPACK encoder's stream until the connection ends, or returns why it has to.
async fn follow_encoder(
    mut checked: Result<(), Refused>,
    mut quinn: quinn::RecvStream,
    mut guard: Guard,
) -> Option<Code> {
    loop {
        if checked.is_err() {
            return Some(Code::QPACK_ENCODER_STREAM_ERROR);
        }
        checked = match quinn.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) => guard.check(&chunk.bytes),
            // RFC 9204 section 4.2.
            Ok(None) | Err(ReadError::Reset(_)) => return Some(Code::H3_CLOSED_CRITICAL_STREAM),
            Err(_) => return None,
        };
    }
}

fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        ReadError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
