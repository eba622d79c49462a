//! The sending half of a QUIC stream.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use quinn::{StoppedError, WriteError};

use super::{lost, stream_id, varint};

/// Frames of a request stream up to this size are kept until more follows: a full packet.
const TOGETHER: usize = 1200;

/// The sending half.
pub(in crate::h3) struct SendStream {
    quinn: quinn::SendStream,
    /// A request stream: small frames may wait for the next one.
    gathers: bool,
    /// Bytes to be sent first, and how many of them have been.
    gathered: Vec<u8>,
    written: usize,
    /// A frame that is too long to be gathered; rare, and large in itself.
    frame: Option<Box<WriteBuf<Bytes>>>,
    flush: bool,
    ended: bool,
}

impl SendStream {
    pub(super) fn new(quinn: quinn::SendStream, gathers: bool) -> Self {
        Self {
            quinn,
            gathers,
            gathered: Vec::new(),
            written: 0,
            frame: None,
            flush: false,
            ended: false,
        }
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while self.written < self.gathered.len() {
            let bytes = &self.gathered[self.written..];
            let count = ready!(Pin::new(&mut self.quinn).poll_write(cx, bytes));
            self.written += count.map_err(write_error)?;
        }
        self.gathered.clear();
        self.written = 0;
        if let Some(frame) = &mut self.frame {
            while frame.has_remaining() {
                let count = ready!(Pin::new(&mut self.quinn).poll_write(cx, frame.chunk()));
                frame.advance(count.map_err(write_error)?);
            }
        }
        self.frame = None;
        self.flush = false;
        Poll::Ready(Ok(()))
    }

    /// Fails if the peer does not want the stream any more. There is nothing to write that would
    /// find out.
    fn poll_stopped(&self, cx: &mut Context<'_>) -> Result<(), StreamErrorIncoming> {
        match pin!(self.quinn.stopped()).poll(cx) {
            Poll::Ready(Ok(Some(code))) => Err(StreamErrorIncoming::StreamTerminated {
                error_code: code.into_inner(),
            }),
            Poll::Ready(Err(StoppedError::ConnectionLost(error))) => Err(lost(error)),
            Poll::Ready(Ok(None) | Err(StoppedError::ZeroRttRejected)) | Poll::Pending => Ok(()),
        }
    }

    /// Appends what is contiguous at the front of a frame: its header, or all of it in turn.
    fn gather(&mut self, frame: &mut WriteBuf<Bytes>) {
        let chunk = frame.chunk();
        let length = chunk.len();
        self.gathered.extend_from_slice(chunk);
        frame.advance(length);
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if self.gathers && self.frame.is_none() && !self.flush {
            return Poll::Ready(Ok(()));
        }
        if self.flush && self.gathered.is_empty() {
            self.poll_stopped(cx)?;
        }
        self.poll_write_all(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() {
            // h3 waits for `poll_ready` between two frames.
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: ConnectionErrorIncoming::InternalError(
                    "a frame was sent before the last one was written".into(),
                ),
            });
        }
        let mut frame = data.into();
        // DATA (0x00) of length 0; see `FLUSH`.
        if self.gathers && frame.remaining() == 2 && frame.chunk() == [0, 0] {
            self.flush = true;
            return Ok(());
        }
        if self.gathered.capacity() == 0 {
            self.gathered
                .reserve_exact(frame.remaining().min(TOGETHER) + 32);
        }
        if self.gathered.len() + frame.remaining() <= TOGETHER {
            while frame.has_remaining() {
                self.gather(&mut frame);
            }
        } else {
            // At least the frame's header can go along with what is there.
            self.gather(&mut frame);
            self.frame = Some(Box::new(frame));
        }
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_write_all(cx))?;
        self.ended = true;
        Poll::Ready(
            self.quinn
                .finish()
                .map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))),
        )
    }

    fn reset(&mut self, reset_code: u64) {
        self.ended = true;
        // Fails on a stream that has ended, which needs no reset.
        let _ = self.quinn.reset(varint(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.quinn.id())
    }
}

impl Drop for SendStream {
    /// quinn would end the stream properly, and a response cut short must not look complete.
    fn drop(&mut self) {
        if !self.ended {
            quic::SendStream::reset(self, Code::H3_INTERNAL_ERROR.value());
        }
    }
}

fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        WriteError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
