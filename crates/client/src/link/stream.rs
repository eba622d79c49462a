//! A connection over TCP, a Unix socket or memory, with or without TLS.

use std::cell::RefCell;
use std::mem;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use trilane_transport::tls;
use trilane_wire::{ConnectionError, FieldList, Refused, Request, StreamId, Unprocessed, Upload};

use super::{Codec, Socket, Turn};
use crate::slots::{self, Slots};
use crate::{Error, Kind, Version};

/// What one read takes at most, in bytes.
const BUFFER: usize = 128 * 1024;
/// Content of requests is not handed over while more than this waits for the socket, in bytes.
const OUT_LIMIT: usize = 256 * 1024;
/// Nothing more is read from a peer that leaves more than this unread, in bytes: every frame of
/// HTTP/2 may ask for an answer.
const UNSENT_LIMIT: usize = 1 << 20;

thread_local! {
    /// Where a thread receives, for all of its connections.
    static RECEIVED: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into_boxed_slice());
}

/// The state of a connection on a byte stream.
#[derive(Debug)]
pub(crate) struct StreamLink {
    codec: Codec,
    tls: Option<Box<tls::Session>>,
    /// What the codec has written and nothing has sealed.
    plain: Vec<u8>,
    /// What goes to the socket, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether the socket takes no more.
    broken: bool,
    /// HTTP/1.1: whether the reader of the response is behind.
    paused: bool,
}

impl StreamLink {
    /// HTTP on a stream that is connected, and shaken hands on.
    pub(crate) fn new(version: Version, tls: Option<Box<tls::Session>>) -> Self {
        let mut plain = Vec::new();
        let codec = Codec::new(version, &mut plain);
        Self {
            codec,
            tls,
            plain,
            unsent: Vec::new(),
            sent: 0,
            broken: false,
            paused: false,
        }
    }

    /// What is left of a handshake goes first.
    pub(crate) fn queue(&mut self, handshake: Vec<u8>) {
        self.unsent = handshake;
    }

    pub(crate) fn version(&self) -> Version {
        self.codec.version()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.codec.capacity()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.codec.outstanding()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.broken || self.codec.is_closing()
    }

    pub(crate) fn submit(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        self.paused = false;
        self.codec.submit(request, slot, &mut self.plain)
    }

    pub(crate) fn cancel(&mut self, stream: StreamId) -> bool {
        self.codec.cancel(stream, &mut self.plain)
    }

    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.codec.write(stream, bytes, &mut self.plain)
    }

    pub(crate) fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> bool {
        self.codec.finish(stream, trailers, &mut self.plain)
    }

    pub(crate) fn upload(&self, stream: StreamId) -> Upload {
        self.codec.upload(stream)
    }

    pub(crate) fn pause(&mut self, stream: StreamId) {
        self.paused = self.version() == Version::H1;
        self.codec.pause(stream);
    }

    pub(crate) fn resume(&mut self, stream: StreamId, _slots: &mut Slots) {
        self.paused = false;
        self.codec.resume(stream, &mut self.plain);
    }

    pub(crate) fn may_read(&self) -> bool {
        !self.paused && self.waiting() <= UNSENT_LIMIT
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.broken && (self.waiting() > 0 || !self.plain.is_empty() || self.codec.has_output())
    }

    pub(crate) fn gathered(&self) -> usize {
        self.plain.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting() + self.plain.len() < OUT_LIMIT
    }

    fn waiting(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Moves what the codec has written to `unsent`. False when there was nothing.
    fn seal(&mut self) -> bool {
        if self.plain.is_empty() {
            if !self.codec.has_output() {
                return false;
            }
            self.codec.produce(&mut self.plain);
        }
        match &mut self.tls {
            None if self.unsent.is_empty() => mem::swap(&mut self.plain, &mut self.unsent),
            None => self.unsent.extend_from_slice(&self.plain),
            Some(session) => {
                // A session that has failed cannot seal; reading tells why.
                self.broken |= session.send(&self.plain, &mut self.unsent).is_err();
            }
        }
        self.plain.clear();
        true
    }

    pub(crate) fn flush(&mut self, socket: &Socket, _slots: &mut Slots) {
        let Socket::Stream(fd) = socket else {
            return;
        };
        while !self.broken {
            if self.waiting() == 0 {
                self.unsent.clear();
                self.sent = 0;
                if !self.seal() {
                    return;
                }
                continue;
            }
            match net::send(fd, &self.unsent[self.sent..], SendFlags::NOSIGNAL) {
                Ok(length) => self.sent += length,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return,
                // A response may have arrived all the same: reading tells how the connection ended.
                Err(_) => self.broken = true,
            }
        }
    }

    pub(crate) fn read(&mut self, socket: &Socket, slots: &mut Slots) -> Turn {
        let Socket::Stream(fd) = socket else {
            return Turn::Drained;
        };
        RECEIVED.with_borrow_mut(|buffer| {
            let kept = self.tls.as_mut().map_or(0, |tls| tls.restore(buffer));
            loop {
                return match net::recv(fd, &mut buffer[kept..], RecvFlags::empty()) {
                    Ok((_, 0)) => Turn::Over(self.eof(None, slots)),
                    Ok((_, length)) => {
                        let end = kept + length;
                        match self.feed(&mut buffer[..end], slots) {
                            Err(error) => {
                                self.flush(socket, slots);
                                Turn::Over(error)
                            }
                            Ok(()) if self.tls.as_ref().is_some_and(|tls| tls.peer_closed()) => {
                                // The peer's direction has ended (RFC 8446 §6.1). Some peers keep
                                // the socket until they have our close_notify as well.
                                if let Some(session) = &mut self.tls {
                                    session.close(&mut self.unsent);
                                }
                                self.flush(socket, slots);
                                Turn::Over(self.eof(None, slots))
                            }
                            Ok(()) if end == buffer.len() => Turn::More,
                            Ok(()) => Turn::Drained,
                        }
                    }
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => Turn::Drained,
                    Err(error) => Turn::Over(self.eof(Some(error), slots)),
                };
            }
        })
    }

    /// Takes what came from the peer.
    pub(crate) fn feed(&mut self, bytes: &mut [u8], slots: &mut Slots) -> Result<(), Error> {
        let result = match &mut self.tls {
            None => self.codec.receive(bytes, slots, &mut self.plain),
            Some(session) => {
                let mut result = Ok(());
                let codec = &mut self.codec;
                let plain = &mut self.plain;
                let sealed = session.receive(
                    bytes,
                    |plaintext| {
                        if result.is_ok() {
                            result = codec.receive(plaintext, slots, plain);
                        }
                    },
                    &mut self.unsent,
                );
                if let Err(error) = sealed {
                    return Err(crate::tls::failure(&error.0));
                }
                result
            }
        };
        result.map_err(connection_error)
    }

    /// Takes what came behind the end of the TLS handshake.
    pub(crate) fn feed_early(&mut self, plaintext: &[u8], slots: &mut Slots) -> Result<(), Error> {
        let result = self.codec.receive(plaintext, slots, &mut self.plain);
        result.map_err(connection_error)
    }

    /// The peer has ended its direction, or the socket failed.
    pub(crate) fn eof(&mut self, cause: Option<Errno>, slots: &mut Slots) -> Error {
        self.broken = true;
        let end = tls::end_of_stream(self.tls.as_deref(), cause.is_some());
        self.codec.eof(end, slots);
        match cause {
            None => Error::new(Kind::Closed, "the server closed the connection"),
            Some(Errno::CONNRESET | Errno::PIPE) => {
                Error::new(Kind::Reset, "the server reset the connection")
            }
            Some(error) => Error::new(Kind::Closed, format!("the connection failed: {error}")),
        }
    }

    pub(crate) fn close(&mut self, socket: &Socket) {
        self.codec.close(&mut self.plain);
        let _ = self.seal();
        if let Some(session) = &mut self.tls {
            session.close(&mut self.unsent);
        }
        self.flush(socket, &mut Slots::default());
        self.broken = true;
        if let Socket::Stream(fd) = socket {
            // Wakes who polls it. A socket that is not connected any more needs no shutting down.
            let _ = net::shutdown(fd, Shutdown::Both);
        }
    }

    pub(crate) fn settings(&self) -> Vec<(&'static str, u64)> {
        self.codec.settings()
    }

    /// What a connection without a socket has to send.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        while self.seal() {}
        mem::take(&mut self.unsent)
    }

    /// The agreement of TLS, with the server's certificates.
    pub(crate) fn tls(&self) -> Option<crate::TlsInfo> {
        let session = self.tls.as_ref()?;
        let mut info = crate::TlsInfo::from(session.info()?);
        info.certificates = session.certificates();
        Some(info)
    }
}

fn connection_error(error: ConnectionError) -> Error {
    Error {
        kind: slots::kind(error.kind),
        message: error.to_string(),
        stream_id: None,
        code: Some(error.code).filter(|&code| code != 0),
        unprocessed: Unprocessed::Unknown,
    }
}
