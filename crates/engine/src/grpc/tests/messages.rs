//! Messages that are others in each call, and what is refused.

use super::*;

/// The content of the request of this number.
fn content_of(plan: &Plan, number: u64) -> Vec<u8> {
    let mut changing = plan.changing[0].clone().unwrap();
    let request = changing.write(
        trilane_wire::Encoding::H2,
        number,
        crate::scenario::Values::NONE,
    );
    request.unwrap().body().to_vec()
}

#[test]
fn a_message_may_be_another_one_in_each_call() {
    let json = r#"{"name": "shelves/{rand:1-9}/books/{seq}"}"#;
    let plan = plan(call("GetBook", json), |_| ()).unwrap();
    let schema = &plan.calls.as_ref().unwrap().first().method;
    let name = |number| {
        let content = content_of(&plan, number);
        let message = schema.decode_request(&content[frame::PREFIX..]).unwrap();
        let name = message.get_field_by_name("name").unwrap();
        name.as_str().unwrap().to_owned()
    };
    for number in [0, 7, 123_456] {
        let name = name(number);
        assert!(name.ends_with(&format!("/books/{number}")), "{name}");
    }
    assert_eq!(name(7), name(7));
}

#[test]
fn messages_of_streams_are_numbered_over_the_run() {
    let plan = plan(call("LookUpBooks", r#"{"name": "{seq}"}"#), |options| {
        options.calls.count = Some(3);
        options.calls.in_flight = Some(3);
    })
    .unwrap();
    let call = plan.calls.as_ref().unwrap().first();
    let mut out = Vec::new();
    let mut scratch = crate::grpc::Scratch::default();
    for (number, index) in [(0, 0), (0, 2), (2, 1)] {
        call.encode(number, index, &mut scratch, &mut out).unwrap();
    }
    assert_eq!(
        out,
        b"\0\0\0\0\x03\x0a\x010\0\0\0\0\x03\x0a\x012\0\0\0\0\x03\x0a\x017"
    );
}

#[test]
fn templates_that_make_no_message_are_told_before_the_run() {
    let told = refusal(call("GetBook", r#"{"name": {seq}}"#), |_| ());
    assert!(
        told.contains("message 0") && told.contains("name"),
        "{told}"
    );
    let told = refusal(call("GetBook", r#"{"nam": "{seq}"}"#), |_| ());
    assert!(told.contains("nam"), "{told}");
    let told = refusal(
        call("GetBook", r#"{"name": "{csv:/no/such.csv:a}"}"#),
        |_| (),
    );
    assert!(told.contains("cannot read /no/such.csv"), "{told}");
}

#[test]
fn what_is_about_streams_is_refused_where_there_are_none() {
    type Change<'a> = &'a dyn Fn(&mut Options);
    let cases: [(&str, &str, Change<'_>); 8] = [
        ("GetBook", "--message-rate", &|o| {
            o.calls.message_rate = Some(1.0)
        }),
        ("WatchBooks", "--half-close", &|o| {
            o.calls.half_close = HalfClose::Never
        }),
        ("GetBook", "--stream-duration", &|o| {
            o.calls.stream_duration = Some(Duration::from_secs(1));
        }),
        ("ImportBooks", "--messages-in-flight", &|o| {
            o.calls.in_flight = Some(2)
        }),
        ("WatchBooks", "--answers", &|o| {
            o.calls.answers = Answers::Any
        }),
        ("LookUpBooks", "--messages-in-flight 10", &|o| {
            o.calls.answers = Answers::OneIn(10);
            o.calls.in_flight = Some(9);
        }),
        ("LookUpBooks", "--answers any", &|o| {
            o.calls.answers = Answers::Any;
            o.calls.in_flight = Some(9);
        }),
        ("GetBook", "--max-message 4m", &|o| o.calls.max_message = 0),
    ];
    for (method, told, change) in cases {
        let found = refusal(call(method, "{}"), change);
        assert!(found.contains(told), "{found}");
    }
}
