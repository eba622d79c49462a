//! The library service by Connect, over every version.

use bytes::Bytes;
use http::{Request, request::Builder};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    channel::proto::{Book, GetBookRequest, WatchBooksRequest, WatchBooksResponse},
    common::{Answer, over_every_version, run, start},
};

const JSON: &str = "application/json";
const PROTO: &str = "application/proto";
const STREAM_JSON: &str = "application/connect+json";
const STREAM_PROTO: &str = "application/connect+proto";
const NAME: &str = r#"{"name":"shelves/1/books/1"}"#;

fn post(method: &str, kind: &str) -> Builder {
    Request::post(format!("/trilane.library.v1.Library/{method}"))
        .header("content-type", kind)
        .header("connect-protocol-version", "1")
}

fn envelope(flags: u8, message: &[u8]) -> Vec<u8> {
    let mut out = vec![flags];
    out.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// The messages of a stream, and what its end says.
fn messages(answer: &Answer) -> (Vec<Bytes>, Value) {
    assert_eq!(answer.status, 200);
    let mut rest = answer.body.clone();
    let mut all = Vec::new();
    loop {
        let head = rest.split_to(5);
        let message = rest.split_to(u32::from_be_bytes(head[1..].try_into().unwrap()) as usize);
        match head[0] {
            0 => all.push(message),
            1 => {
                let plain = trilane_grpc::gzip::decompress(&message, 1 << 20).unwrap();
                all.push(plain.into());
            }
            2 => {
                assert!(rest.is_empty(), "nothing follows the end");
                return (all, serde_json::from_slice(&message).unwrap());
            }
            other => panic!("flags {other}"),
        }
    }
}

fn refusal(answer: &Answer, status: u16, code: &str, word: &str) {
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.field("content-type"), JSON, "{text}");
    assert_eq!(answer.json()["code"], code, "{text}");
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(word), "{word:?} in {message:?}");
}

fn ends_with(answer: &Answer, code: &str, word: &str) {
    let (_, end) = messages(answer);
    assert_eq!(end["error"]["code"], code, "{end}");
    let message = end["error"]["message"].as_str().unwrap();
    assert!(message.contains(word), "{word:?} in {message:?}");
}

over_every_version! {
    one_message_is_asked_and_answered(client, version) {
        let json = client.send(post("GetBook", JSON), NAME).await;
        assert_eq!((json.status.as_u16(), json.field("content-type")), (200, JSON), "{version}");
        assert_eq!(json.json()["title"], "Book 1 of shelf 1", "{version}");
        // The embedded server has no rule for this path, so that the version may be left out.
        let bare = Request::post("/trilane.library.v1.Library/GetBook").header("content-type", JSON);
        assert_eq!(client.send(bare, NAME).await.body, json.body, "{version}");

        let request = GetBookRequest { name: "shelves/1/books/1".into() }.encode_to_vec();
        let proto = client.send(post("GetBook", PROTO), request).await;
        assert_eq!((proto.status.as_u16(), proto.field("content-type")), (200, PROTO), "{version}");
        assert_eq!(Book::decode(proto.body).unwrap().title, "Book 1 of shelf 1", "{version}");

        let health = Request::post("/grpc.health.v1.Health/Check").header("content-type", JSON);
        let health = client.send(health, r#"{"service":"trilane.library.v1.Library"}"#).await;
        assert_eq!(health.json(), json!({ "status": "SERVING" }), "{version}");
    }

    get_asks_where_nothing_is_changed(client, version) {
        let path = "/trilane.library.v1.Library/GetBook?connect=v1&encoding=json\
                    &message=%7B%22name%22%3A%22shelves%2F1%2Fbooks%2F1%22%7D";
        let get = client.get(path).await;
        assert_eq!((get.status.as_u16(), get.field("content-type")), (200, JSON), "{version}");
        assert_eq!(get.json()["title"], "Book 1 of shelf 1", "{version}");
        let head = client.send(Request::head(path), "").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0), "{version}");
        assert_eq!(head.field("content-length"), get.body.len().to_string(), "{version}");
        // 0a 11, the name: field 1 with 17 bytes.
        let path = "/trilane.library.v1.Library/GetBook?connect=v1&encoding=proto&base64=1\
                    &message=ChFzaGVsdmVzLzEvYm9va3MvMQ";
        let get = client.get(path).await;
        assert_eq!(Book::decode(get.body).unwrap().title, "Book 1 of shelf 1", "{version}");

        let get = client.get("/trilane.library.v1.Library/DeleteBook?encoding=json&message={}").await;
        refusal(&get, 405, "unknown", "DeleteBook");
        assert_eq!(get.field("allow"), "POST", "{version}");
        let get = client.get("/trilane.library.v1.Library/GetBook?encoding=json").await;
        refusal(&get, 400, "invalid_argument", "message");
    }

    messages_are_compressed_by_choice(client, version) {
        let zipped = trilane_grpc::gzip::compress(br#"{"parent":"shelves/1","pageSize":50}"#);
        let request = post("ListBooks", JSON).header("content-encoding", "gzip");
        let plain = client.send(request, zipped.clone()).await;
        assert_eq!(plain.json()["books"].as_array().unwrap().len(), 50, "{version}");
        assert_eq!(plain.field("content-encoding"), "", "{version}");
        let request = post("ListBooks", JSON)
            .header("content-encoding", "gzip")
            .header("accept-encoding", "br, gzip");
        let answer = client.send(request, zipped).await;
        assert_eq!(answer.field("content-encoding"), "gzip", "{version}");
        let content = trilane_grpc::gzip::decompress(&answer.body, 1 << 20).unwrap();
        assert_eq!(content, plain.body, "{version}");

        let request = post("GetBook", JSON).header("content-encoding", "br");
        refusal(&client.send(request, "x").await, 501, "unimplemented", "gzip");
        let request = post("GetBook", JSON).header("content-encoding", "gzip");
        refusal(&client.send(request, NAME).await, 400, "invalid_argument", "gzip");
        let bomb = trilane_grpc::gzip::compress(&vec![b' '; 5 << 20]);
        let request = post("GetBook", JSON).header("content-encoding", "gzip");
        refusal(&client.send(request, bomb).await, 429, "resource_exhausted", "4194304");
    }

    errors_have_the_form_of_connect(client, version) {
        let none = client.send(post("GetBook", JSON), r#"{"name":"shelves/1/books/0"}"#).await;
        refusal(&none, 404, "not_found", "shelves/1/books/0");
        let none = client.send(post("GetBook", PROTO), b"\x0a\x01x".to_vec()).await;
        refusal(&none, 400, "invalid_argument", "x");
        refusal(&client.send(post("GetBook", JSON), "{").await, 400, "invalid_argument", "wanted");
        let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(5 << 20));
        refusal(&client.send(post("GetBook", JSON), large).await, 429, "resource_exhausted", "4194304");
        refusal(&client.send(post("Burn", PROTO), "").await, 404, "unimplemented", "Burn");
        let other = client.send(post("GetBook", "application/thrift"), "").await;
        refusal(&other, 415, "unknown", PROTO);
        assert_eq!(other.field("accept-post"), "application/proto, application/json", "{version}");
        refusal(&client.send(post("WatchBooks", JSON), "{}").await, 415, "unknown", STREAM_PROTO);
        refusal(&client.send(post("GetBook", STREAM_JSON), "").await, 415, "unknown", PROTO);
        let delete = Request::delete("/trilane.library.v1.Library/GetBook").header("content-type", PROTO);
        let delete = client.send(delete, "").await;
        refusal(&delete, 405, "unknown", "GET, HEAD, POST");
        let request = Request::post("/trilane.library.v1.Library/GetBook")
            .header("content-type", PROTO)
            .header("connect-protocol-version", "2");
        refusal(&client.send(request, "").await, 400, "invalid_argument", "\"2\"");
        let late = post("GetBook", JSON).header("connect-timeout-ms", "soon");
        refusal(&client.send(late, NAME).await, 400, "invalid_argument", "soon");
    }

    a_service_streams(client, version) {
        let request = envelope(0, br#"{"parent":"shelves/5","count":3}"#);
        let answer = client.send(post("WatchBooks", STREAM_JSON), request).await;
        assert_eq!(answer.field("content-type"), STREAM_JSON, "{version}");
        let (all, end) = messages(&answer);
        assert_eq!((all.len(), end), (3, json!({})), "{version}");
        let last: Value = serde_json::from_slice(&all[2]).unwrap();
        assert_eq!(last["book"]["title"], "Book 3 of shelf 5", "{version}");

        let request = WatchBooksRequest { parent: "shelves/5".into(), count: 2, ..Default::default() };
        let zipped = trilane_grpc::gzip::compress(&request.encode_to_vec());
        let post_zipped = post("WatchBooks", STREAM_PROTO).header("connect-content-encoding", "gzip");
        let (all, _) = messages(&client.send(post_zipped, envelope(1, &zipped)).await);
        let last = WatchBooksResponse::decode(all[1].clone()).unwrap();
        assert_eq!(last.book.unwrap().title, "Book 2 of shelf 5", "{version}");

        let request = envelope(0, br#"{"parent":"shelves/77"}"#);
        let answer = client.send(post("WatchBooks", STREAM_JSON), request).await;
        ends_with(&answer, "not_found", "shelves/77");
        let follow = envelope(0, br#"{"parent":"shelves/5","follow":true}"#);
        let late = post("WatchBooks", STREAM_JSON).header("connect-timeout-ms", "1000");
        let answer = client.send(late, follow).await;
        assert_eq!(messages(&answer).0.len(), 100, "{version}");
        ends_with(&answer, "deadline_exceeded", "deadline");
    }

    the_caller_streams(client, version) {
        let one = envelope(0, br#"{"parent":"shelves/6","book":{"title":"x"}}"#);
        let answer = client.send(post("ImportBooks", STREAM_JSON), one.repeat(300)).await;
        let (all, end) = messages(&answer);
        assert_eq!((all, end), (vec![Bytes::from(r#"{"created":300}"#)], json!({})), "{version}");
        let names = [1, 2].map(|n| envelope(0, format!(r#"{{"name":"shelves/6/books/{n}"}}"#).as_bytes()));
        let answer = client.send(post("LookUpBooks", STREAM_JSON), names.concat()).await;
        let (all, _) = messages(&answer);
        assert_eq!(all.len(), 2, "{version}");
        let names = [&names[0], &envelope(0, br#"{"name":"shelves/6/books/0"}"#)[..]].concat();
        let answer = client.send(post("LookUpBooks", STREAM_JSON), names).await;
        assert_eq!(messages(&answer).0.len(), 1, "{version}");
        ends_with(&answer, "not_found", "shelves/6/books/0");
    }

    reflection_is_a_stream_too(client, version) {
        use tonic_reflection::pb::v1::{
            ServerReflectionRequest, ServerReflectionResponse,
            server_reflection_request::MessageRequest,
            server_reflection_response::MessageResponse,
        };
        for module in ["v1", "v1alpha"] {
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            };
            let path = format!("/grpc.reflection.{module}.ServerReflection/ServerReflectionInfo");
            let post = Request::post(path)
                .header("content-type", STREAM_PROTO)
                .header("connect-protocol-version", "1")
                .header("connect-content-encoding", "gzip")
                .header("connect-accept-encoding", "gzip");
            let zipped = trilane_grpc::gzip::compress(&request.encode_to_vec());
            let (all, end) = messages(&client.send(post, envelope(1, &zipped)).await);
            assert_eq!((all.len(), end), (1, json!({})), "{version} {module}");
            let answer = ServerReflectionResponse::decode(all[0].clone()).unwrap();
            let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
                panic!("{version} {answer:?}");
            };
            let is_library = |service: &str| service == "trilane.library.v1.Library";
            assert!(list.service.iter().any(|service| is_library(&service.name)), "{version}");
        }
    }

    what_is_no_stream_ends_with_its_reason(client, version) {
        let send = |method: &'static str, content: Vec<u8>| (post(method, STREAM_JSON), content);
        let good = envelope(0, br#"{"parent":"shelves/6","book":{}}"#);
        for ((request, content), code, word) in [
            (send("WatchBooks", Vec::new()), "unimplemented", "none came"),
            (send("WatchBooks", envelope(0, b"{}").repeat(2)), "unimplemented", "several came"),
            (send("WatchBooks", envelope(1, b"{}")), "internal", "connect-content-encoding"),
            (send("ImportBooks", [&good[..], b"\0\0"].concat()), "internal", "within"),
            (send("ImportBooks", [&good[..], &envelope(2, b"{}")].concat()), "internal", "0x02"),
            (send("ImportBooks", [&good[..], &envelope(0, b"{")].concat()), "invalid_argument", "wanted"),
            (send("LookUpBooks", vec![0, 0, 64, 0, 1]), "resource_exhausted", "4194305"),
        ] {
            ends_with(&client.send(request, content).await, code, word);
        }
        let other = post("ImportBooks", STREAM_JSON).header("connect-content-encoding", "br");
        ends_with(&client.send(other, good).await, "unimplemented", "gzip");
        let other = client.send(post("ImportBooks", "application/connect+thrift"), "").await;
        refusal(&other, 415, "unknown", STREAM_PROTO);
    }
}

#[test]
fn a_call_that_ends_early_leaves_the_connection_to_the_next() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let target = start();
    run(async {
        let address = target.server.addresses().http;
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = |length: &str| {
            format!(
                "POST /trilane.library.v1.Library/LookUpBooks HTTP/1.1\r\nhost: localhost\r\n\
                 content-type: {STREAM_JSON}\r\n{length}\r\n\r\n"
            )
        };
        let missing = envelope(0, br#"{"name":"shelves/6/books/0"}"#);
        let mut seen = Vec::new();
        // The answer to the first comes while its content has no end yet.
        for is_last in [false, true] {
            let mut request = match is_last {
                false => head("transfer-encoding: chunked").into_bytes(),
                true => head(&format!("content-length: {}", missing.len())).into_bytes(),
            };
            if !is_last {
                request.extend_from_slice(format!("{:x}\r\n", missing.len()).as_bytes());
            }
            request.extend_from_slice(&missing);
            stream.write_all(&request).await.unwrap();
            let end = b"0\r\n\r\n";
            while !seen.ends_with(end) {
                assert_ne!(
                    stream.read_buf(&mut seen).await.unwrap(),
                    0,
                    "it was closed"
                );
            }
            let text = String::from_utf8_lossy(&seen).into_owned();
            assert!(text.contains("not_found"), "{text}");
            seen.clear();
            if !is_last {
                stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
            }
        }
    });
}
