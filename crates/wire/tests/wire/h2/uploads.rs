//! Content that is written while the response may already arrive, and content that waits for its
//! reader.

use trilane_wire::h2::Config;
use trilane_wire::hpack::Decoder;
use trilane_wire::{
    Content, Encoding, ErrorKind, FieldList, OneOff, Request, RequestParts, StreamId, Unfinished,
    Upload,
};

use super::common::*;

pub(crate) fn put(path: &str, length: Option<u64>) -> Request {
    Request::one_off(
        Encoding::H2,
        &OneOff {
            method: "PUT",
            scheme: "http",
            authority: "a.example",
            path,
            fields: &[],
            content: Content::Streamed { length, raw: false },
        },
    )
    .unwrap()
}

pub(crate) fn list(fields: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

pub(crate) fn id(stream: u32) -> StreamId {
    StreamId {
        number: stream.into(),
        slot: 0,
    }
}

impl Client {
    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8]) -> usize {
        self.connection.write(id(stream), bytes, &mut self.out)
    }

    pub(crate) fn finish(&mut self, stream: u32, trailers: &FieldList) -> Result<(), Unfinished> {
        self.connection.finish(id(stream), trailers, &mut self.out)
    }

    fn upload(&self, stream: u32) -> Upload {
        self.connection.upload(id(stream))
    }
}

/// A client that has sent the head of a streamed request to a peer with `settings`.
fn uploading(settings: &[(u16, u32)], length: Option<u64>) -> (Client, u32) {
    let mut client = Client::with(CONFIG, settings);
    let stream = client.send(&put("/", length));
    let head = client.written();
    assert_eq!((head[0].kind, head[0].flags), (HEADERS, END_HEADERS));
    assert_eq!(head.len(), 1);
    (client, stream)
}

#[test]
fn what_is_written_becomes_data_and_finish_ends_the_stream() {
    let (mut client, stream) = uploading(&[], None);
    assert_eq!(client.upload(stream), Upload::Open);
    assert_eq!(client.write(stream, b"hello"), 5);
    assert_eq!(client.write(stream, b""), 0);
    assert!(!client.connection.has_output());
    assert_eq!(client.written(), frames(&frame(DATA, 0, stream, b"hello")));
    client.finish(stream, &FieldList::new()).unwrap();
    assert_eq!(
        client.written(),
        frames(&frame(DATA, END_STREAM, stream, b""))
    );
    assert_eq!(client.upload(stream), Upload::Ended);
    assert_eq!(client.write(stream, b"more"), 0);
    client.finish(stream, &FieldList::new()).unwrap();
    assert_eq!(client.written(), []);

    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
    assert_eq!(client.written(), [], "nothing is left to stop");
    assert_eq!(client.upload(stream), Upload::Stopped);
}

#[test]
fn a_write_takes_what_the_windows_allow() {
    let (mut client, stream) = uploading(&[(4, 50_000)], None);
    let bytes = [b'x'; 100_000];
    assert_eq!(client.write(stream, &bytes), 50_000);
    let sizes: Vec<_> = client.written().iter().map(|f| f.payload.len()).collect();
    assert_eq!(sizes, [16_384, 16_384, 16_384, 848]);
    assert_eq!(client.write(stream, &bytes), 0);
    // The stream has no window, and then the connection has none.
    client.receive(&window_update(stream, 1_000_000));
    assert_eq!(client.write(stream, &bytes), 15_535);
    assert_eq!(client.write(stream, &bytes), 0);
    client.receive(&window_update(0, 1_000_000));
    assert_eq!(client.write(stream, &bytes), 65_536, "no more in one call");
    // A stream may end without a window.
    let (mut client, stream) = uploading(&[(4, 0)], None);
    assert_eq!(client.write(stream, b"x"), 0);
    client.finish(stream, &FieldList::new()).unwrap();
    assert_eq!(
        client.written(),
        frames(&frame(DATA, END_STREAM, stream, b""))
    );
}

#[test]
fn a_window_that_settings_made_negative_takes_nothing() {
    let (mut client, stream) = uploading(&[(4, 1000)], None);
    assert_eq!(client.write(stream, &[b'x'; 600]), 600);
    client.receive(&settings(&[(4, 100)]));
    assert_eq!(client.write(stream, b"x"), 0);
    client.receive(&window_update(stream, 501));
    assert_eq!(client.write(stream, b"xx"), 1);
    assert!(
        !client.connection.has_output(),
        "and nothing waits in a queue"
    );
}

#[test]
fn an_announced_length_is_kept() {
    let (mut client, stream) = uploading(&[], Some(8));
    assert_eq!(client.write(stream, b"hello"), 5);
    let missing = Unfinished::Short { missing: 3 };
    assert_eq!(client.finish(stream, &FieldList::new()), Err(missing));
    assert_eq!(client.upload(stream), Upload::Open);
    assert_eq!(client.write(stream, b"again"), 3);
    assert_eq!(client.write(stream, b"in"), 0);
    client.finish(stream, &FieldList::new()).unwrap();
    assert_eq!(client.upload(stream), Upload::Ended);
}

#[test]
fn trailers_end_the_stream() {
    let (mut client, stream) = uploading(&[(6, 400)], None);
    for bad in [
        ("x", "a\r\nb"),
        ("content-length", "1"),
        (":path", "/"),
        ("te", "x"),
    ] {
        assert_eq!(
            client.finish(stream, &list(&[bad])),
            Err(Unfinished::Trailer)
        );
    }
    let long = "y".repeat(400);
    assert_eq!(
        client.finish(stream, &list(&[("x", &long)])),
        Err(Unfinished::TooLarge)
    );
    assert_eq!(
        (client.written(), client.upload(stream)),
        (vec![], Upload::Open)
    );

    client.finish(stream, &list(&[("X-Sum", "42")])).unwrap();
    let sent = client.written().pop().unwrap();
    assert_eq!((sent.kind, sent.flags), (HEADERS, END_HEADERS | END_STREAM));
    let mut fields = Vec::new();
    let visit = |name: &[u8], value: &[u8], _| fields.push((name.to_vec(), value.to_vec()));
    Decoder::new(4096).decode(&sent.payload, visit).unwrap();
    assert_eq!(fields, [(b"x-sum".to_vec(), b"42".to_vec())]);
    assert_eq!(client.upload(stream), Upload::Ended);
}

#[test]
fn a_complete_response_stops_the_upload() {
    let (mut client, stream) = uploading(&[], None);
    client.write(stream, b"half");
    client.out.clear();
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
    assert_eq!(client.written(), frames(&rst_stream(stream, NO_ERROR)));
    assert_eq!(
        client.events().last(),
        Some(&Event::End(stream.into(), None))
    );
    assert_eq!(client.upload(stream), Upload::Stopped);
    assert_eq!(client.write(stream, b"more"), 0);
    client.finish(stream, &FieldList::new()).unwrap();
    assert_eq!(client.written(), []);
    client.receive(&[rst_stream(stream, NO_ERROR), window_update(stream, 1)].concat());
    assert_eq!(client.connection.outstanding(), 0);
}

#[test]
fn an_upload_that_lacks_only_its_end_gets_it_with_the_response() {
    let (mut client, stream) = uploading(&[], Some(4));
    client.write(stream, b"full");
    client.out.clear();
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
    let end = frame(DATA, END_STREAM, stream, b"");
    assert_eq!(client.written(), frames(&end));
    assert_eq!(client.upload(stream), Upload::Stopped);
}

#[test]
fn whatever_ends_the_stream_stops_the_upload() {
    type End = fn(&mut Client, u32);
    let ends: [End; 4] = [
        |client, stream| client.receive(&rst_stream(stream, NO_ERROR)),
        |client, _| client.receive(&goaway(0, NO_ERROR)),
        |client, stream| client.connection.cancel(id(stream), &mut client.out),
        |client, _| client.connection.eof(&mut client.recorder),
    ];
    for end in ends {
        let (mut client, stream) = uploading(&[], Some(9));
        end(&mut client, stream);
        assert_eq!(
            (client.upload(stream), client.connection.outstanding()),
            (Upload::Stopped, 0)
        );
        client.out.clear();
        assert_eq!(client.write(stream, b"x"), 0);
        client.finish(stream, &FieldList::new()).unwrap();
        assert_eq!(client.written(), []);
    }
}

#[test]
fn uploads_keep_apart_and_bodies_go_between_them() {
    let mut client = Client::with(CONFIG, &[(4, 1_000_000)]);
    client.receive(&window_update(0, 10_000_000));
    let streams: Vec<_> = (0..50).map(|n| client.send(&put("/", Some(n)))).collect();
    let body = client.send(&request("POST", &[b'b'; 200_000]));
    client.out.clear();
    for (length, &stream) in streams.iter().enumerate() {
        assert_eq!(client.write(stream, &[b'u'; 100]), length);
    }
    for &stream in streams.iter().rev() {
        client.finish(stream, &FieldList::new()).unwrap();
    }
    while client.connection.has_output() {
        client.connection.produce(&mut client.out);
    }
    let sent = client.written();
    for (length, &stream) in streams.iter().enumerate() {
        let of_stream = || sent.iter().filter(|frame| frame.stream == stream);
        let written: usize = of_stream().map(|frame| frame.payload.len()).sum();
        assert_eq!(written, length);
        assert_eq!(of_stream().next_back().unwrap().flags, END_STREAM);
    }
    assert!(
        sent.iter()
            .any(|f| f.stream == body && f.flags == END_STREAM)
    );
}

#[test]
fn requests_that_are_sent_once_leave_no_block_behind() {
    let mut client = Client::new();
    let mut decoder = Decoder::new(4096);
    for path in ["/a", "/b", "/b", "/c"] {
        client.send(&put(path, None));
        let sent = client.written().pop().unwrap();
        let mut seen = String::new();
        let visit = |name: &[u8], value: &[u8], _| {
            if name == b":path" {
                seen = String::from_utf8(value.into()).unwrap();
            }
        };
        decoder.decode(&sent.payload, visit).unwrap();
        assert_eq!(seen, path);
    }
}

/// A client that reads a body of unknown length, with a stream window of 1000 bytes.
fn reading(connection_window: u32) -> (Client, u32) {
    let config = Config {
        stream_window: 1000,
        connection_window,
        ..CONFIG
    };
    let mut client = Client::with(config, &[]);
    let stream = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client.events();
    client.out.clear();
    (client, stream)
}

#[test]
fn a_paused_stream_keeps_its_window_until_it_is_resumed() {
    let (mut client, stream) = reading(65_535);
    client.connection.pause(id(stream));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 600]));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 400]));
    assert_eq!(
        client.events(),
        [Event::Data(stream.into(), vec![b'x'; 1000])]
    );
    assert_eq!(client.written(), []);
    client.connection.resume(id(stream), &mut client.out);
    assert_eq!(client.written(), frames(&window_update(stream, 1000)));
    client.connection.resume(id(stream), &mut client.out);
    assert_eq!(client.written(), []);
    client.receive(&frame(DATA, 0, stream, &[b'x'; 500]));
    assert_eq!(client.written(), frames(&window_update(stream, 500)));
    // Little has been used: the update comes with the data that follows.
    client.connection.pause(id(stream));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 499]));
    client.connection.resume(id(stream), &mut client.out);
    assert_eq!(client.written(), []);
    client.receive(&frame(DATA, 0, stream, b"x"));
    assert_eq!(client.written(), frames(&window_update(stream, 500)));
}

#[test]
fn data_beyond_the_window_of_a_paused_stream_is_an_error() {
    let (mut client, stream) = reading(65_535);
    client.connection.pause(id(stream));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 1000]));
    let more = frame(DATA, 0, stream, b"x");
    client.resets(&more, stream, FLOW_CONTROL_ERROR, ErrorKind::Protocol);
}

#[test]
fn others_go_on_while_a_stream_is_paused() {
    let (mut client, stream) = reading(65_535);
    client.connection.pause(id(stream));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 1000]));
    let other = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, other, OK));
    client.out.clear();
    let mut opened = (0, 0);
    for _ in 0..100 {
        client.receive(&frame(DATA, 0, other, &[b'y'; 800]));
        for update in client.written() {
            assert_eq!(update.kind, WINDOW_UPDATE);
            assert_ne!(update.stream, stream);
            let by = u32::from_be_bytes(update.payload[..].try_into().unwrap());
            match update.stream {
                0 => opened.0 += by,
                _ => opened.1 += by,
            }
        }
    }
    assert_eq!(opened.1, 80_000);
    assert!(opened.0 >= 81_000 - 65_535 / 2, "{opened:?}");
}

#[test]
fn a_stream_that_ended_has_no_window_to_open() {
    let (mut client, stream) = reading(65_535);
    client.connection.pause(id(stream));
    client.receive(&frame(DATA, END_STREAM, stream, &[b'x'; 900]));
    client.connection.resume(id(stream), &mut client.out);
    client.connection.pause(id(stream));
    client.connection.resume(id(stream), &mut client.out);
    client.connection.pause(id(99));
    client.connection.resume(id(99), &mut client.out);
    assert_eq!(client.written(), []);
}

#[test]
fn what_arrived_of_a_body_is_reported_before_its_failure() {
    let (mut client, stream) = reading(65_535);
    let data = frame(DATA, 0, stream, b"hello world");
    client.receive(&data[..14]);
    client.connection.eof(&mut client.recorder);
    let events = client.events();
    assert_eq!(events[0], Event::Data(stream.into(), b"hello".into()));
    assert!(fail(stream, ErrorKind::Body, false, None)(&events[1]));
}

#[test]
fn a_prepared_request_can_be_streamed_again_and_again() {
    let request = Request::streamed(&RequestParts {
        method: "POST",
        scheme: "http",
        authority: "a.example",
        path: "/pkg.Service/Method",
        fields: &[("te".to_owned(), "trailers".to_owned())],
        body: (*b"not sent").into(),
        repeated: true,
    })
    .unwrap();
    let head = String::from_utf8_lossy(request.h1_head()).into_owned();
    assert!(head.ends_with("te: trailers\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let names: Vec<_> = request.fields().map(|(name, ..)| name).collect();
    assert!(!names.contains(&&b"content-length"[..]), "{head}");
    assert_eq!(request.streamed_length(), None);

    let mut client = Client::with(CONFIG, &[]);
    let sizes: Vec<usize> = (0..2)
        .map(|_| {
            let stream = client.send(&request);
            let head = client.written();
            assert_eq!((head[0].kind, head[0].flags), (HEADERS, END_HEADERS));
            assert_eq!(client.write(stream, b"hello"), 5);
            client.finish(stream, &FieldList::new()).unwrap();
            let mut content = frame(DATA, 0, stream, b"hello");
            content.extend(frame(DATA, END_STREAM, stream, b""));
            assert_eq!(client.written(), frames(&content));
            head[0].payload.len()
        })
        .collect();
    // The second names all fields by their index.
    assert!(sizes[1] < 10 && sizes[1] < sizes[0] / 3, "{sizes:?}");
}
