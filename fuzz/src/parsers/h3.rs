//! A server's streams, as an interleaving of pieces, ends and resets.

use trilane_wire::h3::{Config, Connection, QuicStreams};
use trilane_wire::{Encoding, FieldList, StreamId};

use crate::checker::Checker;
use crate::requests::Kind;

/// QUIC that takes a few bytes at a time and forgets them.
struct Sink {
    bi: u64,
    uni: u64,
    window: usize,
    transmitted: u64,
}

impl QuicStreams for Sink {
    fn open_bi(&mut self) -> Option<u64> {
        self.bi += 4;
        Some(self.bi - 4)
    }
    fn open_uni(&mut self) -> Option<u64> {
        self.uni += 4;
        Some(self.uni - 4)
    }
    fn write(&mut self, _stream: u64, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.window);
        self.window -= taken;
        self.transmitted += taken as u64;
        taken
    }
    fn transmitted(&self) -> u64 {
        self.transmitted
    }
    fn finish(&mut self, _stream: u64) {}
    fn reset(&mut self, _stream: u64, _code: u64) {}
    fn stop(&mut self, _stream: u64, _code: u64) {}
}

fn run<const FIELDS: bool>(mut data: &[u8]) {
    let mut quic = Sink {
        bi: 0,
        uni: 2,
        window: 1000,
        transmitted: 0,
    };
    let mut connection = Connection::new(
        Config {
            field_section: 500,
            ..Config::default()
        },
        &mut quic,
    );
    let mut checker = Checker::<FIELDS>::default();
    let kinds = [Kind::Get, Kind::Head, Kind::Large, Kind::Streamed];
    for (kind, slot) in kinds.into_iter().zip(0..) {
        if let Ok(stream) = connection.send(kind.request(Encoding::H3), slot, &mut quic) {
            checker.sent(stream);
        }
    }
    let mut lost = false;
    // QUIC delivers nothing behind the end of a stream.
    let mut over = [false; 32];
    while let [what, stream, length, rest @ ..] = data {
        // Request streams 0, 4, 8, 12; the server's 3, 7, …; and one that it may not open.
        let stream = match stream % 9 {
            index @ 0..4 => u64::from(index) * 4,
            index @ 4..8 => u64::from(index - 4) * 4 + 3,
            _ => 1,
        };
        let upload = StreamId {
            number: stream,
            slot: 0,
        };
        let (piece, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        let ended = &mut over[stream as usize];
        let result = match what % 16 {
            0 => connection.stopped(stream & !3, 0x10c, &mut checker, &mut quic),
            1 => {
                quic.window += 5000;
                connection.writable(stream & !3, &mut quic);
                Ok(())
            }
            4 => {
                connection.write(upload, piece, &mut quic);
                Ok(())
            }
            5 => {
                let finished = connection.finish(upload, &FieldList::new(), &mut quic);
                assert_eq!(finished, Ok(()));
                Ok(())
            }
            _ if *ended => Ok(()),
            2 => {
                *ended = true;
                connection.reset(stream, 0x10b, &mut checker, &mut quic)
            }
            what => {
                *ended = what == 3;
                connection.receive(stream, piece, what == 3, &mut checker, &mut quic)
            }
        };
        if result.is_err() {
            lost = true;
            break;
        }
    }
    if !lost {
        connection.eof(&mut checker);
    }
    assert_eq!(connection.outstanding(), 0);
    checker.over();
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    run::<true>(data);
    run::<false>(data);
}
