//! Whole responses, right and wrong, in every protocol: how they are counted, and what is said of them.

use super::super::Protocol;
use super::*;

type Named = [(&'static str, &'static str)];

/// A response: a head, pieces of content, and trailers.
#[derive(Clone)]
struct Answer {
    status: u16,
    head: &'static Named,
    content: Vec<Vec<u8>>,
    trailers: Option<&'static Named>,
}

const GRPC: &Named = &[("content-type", "application/grpc")];
const OK: Option<&Named> = Some(&[("grpc-status", "0")]);
/// A book whose title is x.
const BOOK: &[u8] = b"\x1a\x01x";

/// A message behind a prefix with this flag.
fn flagged(flag: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(message, false, &mut bytes);
    bytes[0] = flag;
    bytes
}

fn book() -> Vec<u8> {
    flagged(0, BOOK)
}

/// A response with these fields; without content and trailers it is a head alone.
fn answer(
    head: &'static Named,
    content: impl Into<Vec<u8>>,
    trailers: Option<&'static Named>,
) -> Answer {
    let content = content.into();
    Answer {
        status: 200,
        head,
        content: if content.is_empty() {
            Vec::new()
        } else {
            vec![content]
        },
        trailers,
    }
}

fn of_status(status: u16, answer: Answer) -> Answer {
    Answer { status, ..answer }
}

impl Flight<'_> {
    fn answered(&mut self, answer: &Answer) {
        self.head(answer.status, answer.head);
        for piece in &answer.content {
            self.sink().data(ID, piece);
        }
        self.end(answer.trailers);
    }
}

/// Runs `check` on a call that got this answer, for each way in which messages are looked at.
fn looked_at(
    (protocol, method): (Protocol, &str),
    change: impl Fn(&mut Options),
    answer: &Answer,
    check: impl Fn(&mut Flight<'_>),
) {
    for mode in [CallMode::Wire, CallMode::Codec] {
        let plan = plan(call(method, "{}"), |options| {
            options.calls.protocol = protocol;
            options.calls.mode = mode;
            change(options);
        })
        .unwrap();
        let mut flight = Flight::new(&plan);
        flight.answered(answer);
        check(&mut flight);
    }
}

/// The call has failed with this kind, and one status is counted.
fn fails(way: (Protocol, &str), answer: &Answer, kind: FailureKind, text: &str) {
    looked_at(
        way,
        |_| (),
        answer,
        |flight| {
            let (found, told) = flight.failure();
            assert_eq!(found, kind, "{text}: {told}");
            assert!(told.contains(text), "{told:?} has no {text:?}");
            assert!(
                told.len() < 1000 && !told.contains(char::is_control),
                "{told:?}"
            );
            let statuses = flight.statuses();
            assert!(matches!(statuses[..], [(_, 1)]), "{text}: {statuses:?}");
        },
    );
}

/// The call has gone well.
fn succeeds(way: (Protocol, &str), answer: &Answer) {
    looked_at(
        way,
        |_| (),
        answer,
        |flight| {
            assert_eq!(flight.statuses(), [("OK", 1)], "{way:?}");
            let recorder = &mut flight.tally.recorder;
            assert_eq!((recorder.ok, recorder.calls().received), (1, 1), "{way:?}");
        },
    );
}

#[test]
fn what_is_unusual_and_right_is_ok() {
    let by_bytes = Answer {
        content: book().into_iter().map(|byte| vec![byte]).collect(),
        ..answer(GRPC, book(), OK)
    };
    let good = [
        answer(GRPC, book(), OK),
        answer(
            &[("content-type", "application/grpc+proto")],
            flagged(0, b""),
            OK,
        ),
        by_bytes,
        answer(
            GRPC,
            book(),
            Some(&[("grpc-status", "0"), ("grpc-message", "all is well")]),
        ),
        answer(
            GRPC,
            book(),
            Some(&[
                ("x-more", "1"),
                ("grpc-status", "0"),
                ("x-blob-bin", "AAE="),
            ]),
        ),
    ];
    for each in good {
        succeeds((Protocol::Grpc, "GetBook"), &each);
        succeeds((Protocol::Grpc, "WatchBooks"), &each);
    }
}

const HTML: &Named = &[("content-type", "text/html")];

/// An answer, and how it is counted.
type Wrong = (Answer, FailureKind, &'static str);

/// Calls of both kinds fail alike.
fn all_fail(cases: &[Wrong]) {
    for (answer, kind, text) in cases {
        fails((Protocol::Grpc, "GetBook"), answer, *kind, text);
        fails((Protocol::Grpc, "WatchBooks"), answer, *kind, text);
    }
}

#[test]
fn a_status_that_is_not_ok_or_none_is_a_failure() {
    use FailureKind::{Protocol as Broken, Status};
    let long: &'static str = Box::leak("long-".repeat(2000).into_boxed_str());
    let long: &'static Named = Box::leak(Box::new([("grpc-status", "3"), ("grpc-message", long)]));
    let after = |trailers| answer(GRPC, book(), Some(trailers));
    all_fail(&[
        (
            answer(
                &[
                    ("content-type", "application/grpc"),
                    ("grpc-status", "13"),
                    ("grpc-message", "all%20is lost"),
                ],
                [],
                None,
            ),
            Status,
            "grpc-status 13 INTERNAL: all is lost",
        ),
        (
            after(&[("grpc-status", "5"), ("grpc-message", "no such book")]),
            Status,
            "grpc-status 5 NOT_FOUND: no such book",
        ),
        (
            after(&[("grpc-status", "99")]),
            Status,
            "99, which counts as UNKNOWN",
        ),
        (
            after(&[("grpc-status", "4294967296")]),
            Status,
            "4294967296",
        ),
        (
            after(&[("grpc-status", "fine")]),
            Broken,
            "grpc-status is \"fine\"",
        ),
        (after(&[("grpc-status", "")]), Broken, "grpc-status is \"\""),
        (after(&[("x-other", "1")]), Broken, "no grpc-status"),
        (answer(GRPC, book(), None), Broken, "no grpc-status"),
        (answer(GRPC, [], None), Broken, "no grpc-status"),
        (
            after(&[("grpc-status", "0"), ("grpc-status", "13")]),
            Broken,
            "as \"0\" and as \"13\"",
        ),
        // Only a response of a head alone has its status there.
        (
            answer(
                &[("content-type", "application/grpc"), ("grpc-status", "0")],
                book(),
                None,
            ),
            Broken,
            "no grpc-status",
        ),
        (
            answer(
                &[("content-type", "application/grpc"), ("grpc-status", "0")],
                book(),
                Some(&[("grpc-status", "14")]),
            ),
            Status,
            "UNAVAILABLE",
        ),
        (
            after(&[
                ("grpc-status", "3"),
                ("grpc-message", "%1B%5B2J%00%0Aevil%0D%08 %zz %F0"),
            ]),
            Status,
            "evil",
        ),
        (after(long), Status, "long-long-"),
    ]);
}

#[test]
fn content_that_is_not_one_whole_message_is_a_failure() {
    use FailureKind::{Body, Limit, Protocol as Broken};
    all_fail(&[
        (
            answer(GRPC, &b"\0\0\0\x01\x90\x1a\x01x"[..], OK),
            Body,
            "within a message",
        ),
        (
            answer(GRPC, [book(), vec![0, 0]].concat(), OK),
            Body,
            "within a message, after 1 whole",
        ),
        (
            answer(GRPC, &b"\0\xff\xff\xff\xff\x1a\x01x"[..], OK),
            Limit,
            "--max-message",
        ),
        (answer(GRPC, flagged(7, BOOK), OK), Broken, "7"),
        (
            answer(GRPC, flagged(1, BOOK), OK),
            Broken,
            "no grpc-encoding",
        ),
        (
            answer(
                &[
                    ("content-type", "application/grpc"),
                    ("grpc-encoding", "snappy"),
                ],
                flagged(1, BOOK),
                OK,
            ),
            Broken,
            "\"snappy\", which was not offered",
        ),
    ]);
    for (messages, text) in [
        (0, "0 messages came with status OK"),
        (2, "2 messages came"),
    ] {
        let many = answer(GRPC, book().repeat(messages), OK);
        fails((Protocol::Grpc, "GetBook"), &many, Body, text);
    }
}

#[test]
fn what_is_no_answer_of_grpc_is_a_failure() {
    use FailureKind::{Protocol as Broken, Status};
    all_fail(&[
        (
            of_status(503, answer(HTML, "busy", None)),
            Status,
            "HTTP status 503, which is UNAVAILABLE",
        ),
        (
            of_status(404, answer(HTML, "no", None)),
            Status,
            "HTTP status 404, which is UNIMPLEMENTED",
        ),
        (
            of_status(403, answer(&[], [], None)),
            Status,
            "HTTP status 403, which is PERMISSION_DENIED",
        ),
        (
            answer(HTML, "yes", None),
            Broken,
            "\"text/html\", not application/grpc",
        ),
        (
            answer(HTML, book(), OK),
            Broken,
            "\"text/html\", not application/grpc",
        ),
        (
            answer(&[("content-type", "application/grpc-web")], book(), OK),
            Broken,
            "\"application/grpc-web\", not",
        ),
        (answer(&[], book(), OK), Broken, "content-type"),
    ]);
}

#[test]
fn what_breaks_the_other_protocols_is_named() {
    use FailureKind::{Protocol as Broken, Status};
    const WEB: &Named = &[("content-type", "application/grpc-web+proto")];
    const STREAM: &Named = &[("content-type", "application/connect+proto")];
    let trailers = || flagged(0x80, b"grpc-status: 0\r\n");
    let end = || flagged(2, b"{}");
    let web = (Protocol::GrpcWeb, "GetBook");
    let watch = (Protocol::Connect, "WatchBooks");
    let unary = (Protocol::Connect, "GetBook");
    succeeds(web, &answer(WEB, [book(), trailers()].concat(), None));
    succeeds(watch, &answer(STREAM, [book(), end()].concat(), None));
    succeeds(
        unary,
        &answer(&[("content-type", "application/proto")], BOOK, None),
    );
    for (way, answer, kind, text) in [
        (
            web,
            answer(WEB, book(), None),
            Broken,
            "message of trailers",
        ),
        (
            web,
            answer(WEB, [book(), trailers(), book()].concat(), None),
            Broken,
            "behind the one that ends",
        ),
        (web, answer(GRPC, book(), None), Broken, "grpc-web"),
        (web, answer(WEB, flagged(2, BOOK), None), Broken, "0x02"),
        (
            watch,
            answer(STREAM, book(), None),
            Broken,
            "EndStreamResponse",
        ),
        (
            watch,
            answer(STREAM, flagged(2, b"no"), None),
            Broken,
            "EndStream",
        ),
        (
            watch,
            answer(STREAM, [end(), book()].concat(), None),
            Broken,
            "behind",
        ),
        (
            unary,
            answer(&[("content-type", "text/html")], "<p>", None),
            Broken,
            "text/html",
        ),
        (
            unary,
            of_status(503, answer(&[("content-type", "text/html")], "<p>", None)),
            Status,
            "503",
        ),
        (
            unary,
            of_status(
                409,
                answer(
                    &[("content-type", "application/json")],
                    r#"{"code": "aborted", "message": "again"}"#,
                    None,
                ),
            ),
            Status,
            "ABORTED: again",
        ),
    ] {
        fails(way, &answer, kind, text);
    }
}

#[test]
fn a_message_without_a_prefix_may_be_as_large_as_others() {
    let book = [&b"\x0a\x62"[..], &[b'x'; 98]].concat();
    let bare = answer(&[("content-type", "application/proto")], book, None);
    let way = (Protocol::Connect, "GetBook");
    looked_at(
        way,
        |options| options.calls.max_message = 100,
        &bare,
        |flight| {
            assert_eq!(flight.statuses(), [("OK", 1)]);
        },
    );
    looked_at(
        way,
        |options| options.calls.max_message = 99,
        &bare,
        |flight| {
            assert_eq!(flight.failure().0, FailureKind::Limit);
            assert_eq!(flight.statuses(), [("RESOURCE_EXHAUSTED", 1)]);
        },
    );
}
