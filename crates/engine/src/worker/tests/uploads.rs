//! Answers that overtake the content of their requests.

use super::*;
use crate::record::Early as EarlyAnswers;

const CONTENT: u64 = 65_536;

/// Sends one request with so much content over HTTP/1.1 to a server that acknowledges so much of all that it is sent.
fn uploaded(content: u64, acknowledges: u64) -> Recorder {
    let options = Options {
        body: vec![b'x'; content as usize],
        connections: 1,
        ..counted(1, Version::H1)
    };
    let serve = Serve {
        acknowledges,
        ..Serve::well()
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
    report.unwrap().recorder
}

#[test]
fn what_the_kernel_still_has_as_the_answer_comes_was_not_sent() {
    let recorder = uploaded(CONTENT, 20_000);
    let EarlyAnswers {
        count,
        body_bytes,
        body_sent,
    } = recorder.early;
    assert_eq!((recorder.ok, count, body_bytes), (1, 1, CONTENT));
    // All but the head.
    let head = recorder.traffic.fields_sent_encoded;
    assert_eq!(body_sent, 20_000 - head);
    assert_eq!(recorder.traffic.body_sent, body_sent);
}

#[test]
fn what_has_arrived_was_sent() {
    let recorder = uploaded(CONTENT, u64::MAX);
    assert_eq!(recorder.early, EarlyAnswers::default());
    assert_eq!(recorder.traffic.body_sent, CONTENT);
}

#[test]
fn what_leaves_with_its_head_is_not_asked_about() {
    let recorder = uploaded(10_000, 0);
    assert_eq!(recorder.early, EarlyAnswers::default());
}
