//! Content of requests on its way to the socket: counted as it leaves, from where it lies.

use std::io::Write;
use std::sync::Arc;

use proptest::prelude::*;
use rustls::ServerConnection;
use trilane_connection::{Stream, Version};
use trilane_wire::{Encoding, FieldList, Request, RequestParts, h1, h2};

use crate::common::{
    Record, carry, connected, give, output, plain, plaintext, put, sealed, tls_server,
};

/// A connection that speaks `version`, and the other end of TLS where it is `tls`.
fn open(version: Version, tls: bool) -> (Stream, Option<ServerConnection>) {
    if !tls {
        return (connected(plain(version)), None);
    }
    let mut stream = connected(sealed(&[version]));
    let mut server = tls_server(&["h2", "http/1.1"]);
    carry(&mut stream, &mut server, 1000, &mut Record::default()).unwrap();
    // The preface and SETTINGS have come with the handshake.
    plaintext(&mut server);
    (stream, Some(server))
}

fn post(body: &[u8]) -> Request {
    Request::new(&RequestParts {
        method: "POST",
        scheme: "https",
        authority: "localhost",
        path: "/",
        fields: &[],
        body: Arc::from(body),
        repeated: true,
    })
    .unwrap()
}

/// Lets a socket take up to `size` bytes; what it took.
fn take(stream: &mut Stream, size: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    for slice in stream.transmit_slices().unwrap() {
        assert!(!slice.is_empty());
        let room = size - taken.len();
        taken.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    assert!(taken.starts_with(stream.transmit().unwrap()) || taken.len() == size);
    stream.sent(taken.len());
    taken
}

/// Lets a socket take `size` bytes, or all that there are.
fn take_all(stream: &mut Stream, size: usize) {
    let mut left = size;
    while left > 0 {
        match take(stream, left).len() {
            0 => return,
            taken => left -= taken,
        }
    }
}

/// The content in what a peer has read of HTTP/2 frames, or of one HTTP/1.1 request.
fn content_in(version: Version, bytes: &[u8]) -> Vec<u8> {
    if version == Version::H1 {
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        return head.map_or_else(Vec::new, |head| bytes[head + 4..].to_vec());
    }
    let mut rest = bytes
        .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap_or(bytes);
    let mut content = Vec::new();
    while let Some((&[a, b, c, kind, ..], payload)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let (payload, behind) = payload.split_at(payload.len().min(length));
        if kind == 0 {
            content.extend_from_slice(payload);
        }
        rest = behind;
    }
    content
}

/// A response without content that ends the request sent first.
fn response(version: Version) -> Vec<u8> {
    match version {
        Version::H1 => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        // SETTINGS; then HEADERS with END_STREAM and END_HEADERS: `:status: 200`.
        _ => [
            &[0, 0, 0, 4, 0, 0, 0, 0, 0][..],
            &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88],
        ]
        .concat(),
    }
}

/// The request sent first is answered.
fn answer(stream: &mut Stream, server: &mut Option<ServerConnection>, version: Version) -> Record {
    let mut bytes = response(version);
    if let Some(server) = server {
        server.writer().write_all(&bytes).unwrap();
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
    }
    let mut record = Record::default();
    give(stream, &bytes, 1000, &mut record).unwrap();
    assert_eq!((&record.heads[..], record.ended), (&[200][..], 1));
    record
}

const WAYS: [(Version, bool); 4] = [
    (Version::H1, false),
    (Version::H1, true),
    (Version::H2, false),
    (Version::H2, true),
];

/// As much as HTTP/2 allows before SETTINGS, in several records and frames.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n / 7 % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn content_is_counted_as_it_leaves(
        sizes in prop::collection::vec(prop_oneof![1usize..200, 200usize..20_000], 1..40),
        lengths in prop::collection::vec(0usize..30_000, 1..3),
        (version, tls) in prop::sample::select(&WAYS[..]),
    ) {
        let (mut stream, mut server) = open(version, tls);
        let bodies: Vec<_> = lengths.iter().map(|&length| body(length)).collect();
        let requests = if version == Version::H1 { &bodies[..1] } else { &bodies[..] };
        for (slot, body) in requests.iter().enumerate() {
            stream.send(&post(body), slot as u32).unwrap();
        }
        let mut read = Vec::new();
        for &size in sizes.iter().cycle() {
            let taken = take(&mut stream, size);
            if taken.is_empty() {
                break;
            }
            match &mut server {
                None => read.extend(taken),
                Some(server) => {
                    let mut rest = &taken[..];
                    while !rest.is_empty() {
                        server.read_tls(&mut rest).unwrap();
                        server.process_new_packets().unwrap();
                    }
                    read.extend(plaintext(server));
                }
            }
            let content = content_in(version, &read).len() as u64;
            if tls {
                // A record is read once its last byte has come.
                let sent = stream.content_sent();
                prop_assert!((content..content + 16_384).contains(&sent), "{sent} of {content}");
            } else {
                prop_assert_eq!(stream.content_sent(), content);
            }
        }
        let all: usize = requests.iter().map(Vec::len).sum();
        prop_assert_eq!(stream.content_sent(), all as u64);
        let mut read = content_in(version, &read);
        let mut sent = requests.concat();
        // The streams of HTTP/2 take turns.
        if requests.len() > 1 {
            read.sort_unstable();
            sent.sort_unstable();
        }
        prop_assert!(read == sent);
    }
}

/// What the peer of HTTP/2 sends first: SETTINGS with windows of 1 MiB for streams, and another MiB for
/// the connection.
const WINDOWS: &[u8] = &[
    0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0x10, 0, 0, //
    0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, 0,
];

enum Codec {
    H1(Box<h1::Connection>),
    H2(Box<h2::Connection>),
}

/// What a codec writes for `requests` where everything is copied.
fn copied(codec: &mut Codec, requests: &[Request]) -> Vec<u8> {
    let (mut out, mut all) = (Vec::new(), Vec::new());
    for (slot, request) in requests.iter().enumerate() {
        match codec {
            Codec::H1(codec) => codec.send(request, slot as u32, &mut out).unwrap(),
            Codec::H2(codec) => codec.send(request, slot as u32, &mut out).unwrap(),
        };
    }
    while !out.is_empty() {
        all.append(&mut out);
        match codec {
            Codec::H1(codec) => codec.produce(&mut out),
            Codec::H2(codec) => codec.produce(&mut out),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn bodies_that_stay_where_they_lie_leave_as_copies_would(
        sizes in prop::collection::vec(prop_oneof![1usize..200, 200usize..100_000], 1..40),
        lengths in prop::collection::vec(
            prop_oneof![1usize..5000, 5000usize..200_000, Just(16_383), Just(16_384)],
            1..4,
        ),
        (version, tls) in prop::sample::select(&WAYS[..]),
    ) {
        let count = if version == Version::H1 { 1 } else { lengths.len() };
        let requests: Vec<_> = lengths[..count].iter().map(|&length| post(&body(length))).collect();
        let (mut stream, mut server) = open(version, tls);
        let mut codec = Codec::H1(Box::new(h1::Connection::new(h1::Limits::default())));
        let mut record = Record::default();
        if version == Version::H2 {
            let mut out = Vec::new();
            let mut h2 = h2::Connection::new(h2::Config::default(), &mut out);
            h2.receive(WINDOWS, &mut record, &mut out).unwrap();
            codec = Codec::H2(Box::new(h2));
            match &mut server {
                Some(server) => {
                    server.writer().write_all(WINDOWS).unwrap();
                    carry(&mut stream, server, 1000, &mut record).unwrap();
                    plaintext(server);
                }
                None => {
                    give(&mut stream, WINDOWS, 1000, &mut record).unwrap();
                    prop_assert!(output(&mut stream) == out);
                }
            }
        }
        for (slot, request) in requests.iter().enumerate() {
            stream.send(request, slot as u32).unwrap();
        }
        let mut sent = Vec::new();
        for &size in sizes.iter().cycle() {
            let taken = take(&mut stream, size);
            if taken.is_empty() {
                break;
            }
            match &mut server {
                None => sent.extend(taken),
                Some(server) => {
                    let mut rest = &taken[..];
                    while !rest.is_empty() {
                        server.read_tls(&mut rest).unwrap();
                        server.process_new_packets().unwrap();
                        sent.extend(plaintext(server));
                    }
                }
            }
        }
        prop_assert!(sent == copied(&mut codec, &requests));
        prop_assert!(!stream.has_output());
    }
}

#[test]
fn content_that_the_caller_writes_is_counted_as_it_leaves() {
    for (version, tls) in WAYS {
        let (mut stream, _server) = open(version, tls);
        let encoding = match version {
            Version::H1 => Encoding::H1,
            _ => Encoding::H2,
        };
        let id = stream.send(&put(encoding), 0).unwrap();
        assert_eq!(stream.write(id, &body(30_000)), 30_000);
        stream.finish(id, &FieldList::new()).unwrap();
        assert_eq!(stream.content_sent(), 0, "it waits for the socket");
        take_all(&mut stream, 1000);
        assert!((500..1000).contains(&stream.content_sent()));
        take_all(&mut stream, usize::MAX);
        assert_eq!(stream.content_sent(), 30_000);
    }
}

#[test]
fn a_large_body_is_not_copied() {
    for version in [Version::H1, Version::H2] {
        let mut stream = connected(plain(version));
        let request = post(&body(60_000));
        stream.send(&request, 0).unwrap();
        let range = request.body().as_ptr_range();
        let lies_there = |slice: &&[u8]| range.contains(&slice.as_ptr());
        let slices = stream.transmit_slices().unwrap();
        let shared: usize = slices.filter(lies_there).map(<[u8]>::len).sum();
        // What is left over of the frames of 16 KiB.
        assert!(shared >= 60_000 - 60_000 % 16_384, "{version:?}: {shared}");
    }
}

#[test]
fn an_early_response_tells_what_of_the_content_has_not_left() {
    for (version, tls) in WAYS {
        for size in [0, 10, 1000, 20_000, 64_000] {
            let (mut stream, mut server) = open(version, tls);
            let body = body(200_000);
            stream.send(&post(&body), 0).unwrap();
            take_all(&mut stream, size);
            let record = answer(&mut stream, &mut server, version);
            let sent = stream.content_sent();
            assert_eq!(record.unsent, body.len() as u64 - sent);
            // Heads, frames and seals are small.
            let near = size.saturating_sub(500)..=size;
            assert!(
                near.contains(&(sent as usize)),
                "{version:?} {tls} {size}: {sent}"
            );
        }
    }
}

#[test]
fn content_that_a_broken_socket_did_not_take_has_not_left() {
    for (version, tls) in WAYS {
        let (mut stream, mut server) = open(version, tls);
        let body = body(60_000);
        stream.send(&post(&body), 0).unwrap();
        take_all(&mut stream, 1000);
        stream.broke();
        let record = answer(&mut stream, &mut server, version);
        let sent = stream.content_sent();
        assert!((500..1000).contains(&sent), "{version:?} {tls}: {sent}");
        assert_eq!(record.unsent, body.len() as u64 - sent);
    }
}

#[test]
fn of_content_that_has_left_nothing_is_told() {
    for (version, tls) in WAYS {
        let (mut stream, mut server) = open(version, tls);
        stream.send(&post(&body(60_000)), 0).unwrap();
        take_all(&mut stream, usize::MAX);
        assert_eq!(answer(&mut stream, &mut server, version).unsent, 0);
        assert_eq!(stream.content_sent(), 60_000);
    }
}
