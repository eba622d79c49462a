//! What larking's README documents, and its test of Twirp calls, over every version: Twirp, calls by query,
//! `curl -d`, streams of JSON and of binary, and the health.

use bytes::Bytes;
use http::Request;
use prost::Message;
use serde_json::json;

use crate::{
    channel::proto::{
        Book, CreateBookRequest, DeleteBookRequest, GetBookRequest, ImportBooksResponse,
        WatchBooksResponse,
    },
    common::{Answer, over_every_version},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/protobuf";
const FORM: &str = "application/x-www-form-urlencoded";
const GET_BOOK: &str = "/trilane.library.v1.Library/GetBook";

/// A request as clients of Twirp make it, with the prefix or without.
fn twirp(prefix: &str, method: &str, kind: &str) -> http::request::Builder {
    Request::post(format!("{prefix}/trilane.library.v1.Library/{method}"))
        .header("accept", kind)
        .header("content-type", kind)
        .header("twirp-version", "v8.1.3")
}

fn failed(answer: &Answer, status: u16, code: &str, word: &str) {
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.field("content-type"), JSON, "{text}");
    assert_eq!(answer.json()["code"], code, "{text}");
    let message = answer.json()["msg"].as_str().unwrap().to_owned();
    assert!(message.contains(word), "{word:?} in {message:?}");
}

fn delimited<M: Message>(messages: &[M]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(Message::encode_length_delimited_to_vec)
        .collect()
}

over_every_version! {
    clients_of_twirp_are_served(client, version) {
        for prefix in ["/twirp", ""] {
            let name = |name: &str| GetBookRequest { name: name.into() }.encode_to_vec();
            let get = || twirp(prefix, "GetBook", PROTOBUF);
            let book = client.send(get(), name("shelves/1/books/1")).await;
            assert_eq!((book.status.as_u16(), book.field("content-type")), (200, PROTOBUF), "{version}");
            assert_eq!(Book::decode(book.body).unwrap().title, "Book 1 of shelf 1", "{version}");
            failed(&client.send(get(), name("shelves/1/books/404")).await, 404, "not_found", "404");

            let create = CreateBookRequest {
                parent: "shelves/1".into(),
                book: Some(Book { title: "book2".into(), ..Book::default() }),
            };
            let created = client.send(twirp(prefix, "CreateBook", PROTOBUF), create.encode_to_vec()).await;
            let name = Book::decode(created.body).unwrap().name;
            let delete = DeleteBookRequest { name }.encode_to_vec();
            let deleted = client.send(twirp(prefix, "DeleteBook", PROTOBUF), delete).await;
            assert_eq!((deleted.status.as_u16(), deleted.body.len()), (200, 0), "{version}");

            let get = || twirp(prefix, "GetBook", JSON);
            let book = client.send(get(), r#"{"name":"shelves/1/books/1","newer":1}"#).await;
            assert_eq!(book.field("content-type"), JSON, "{version}");
            assert_eq!(book.json()["title"], "Book 1 of shelf 1", "{version}");
            failed(&client.send(get(), r#"{"name":"shelves/one/books/1"}"#).await, 400, "invalid_argument", "one");
            failed(&client.send(get(), "{").await, 400, "malformed", "wanted");
            failed(&client.send(twirp(prefix, "WatchBooks", JSON), "{}").await, 501, "unimplemented", "streams");
        }
    }

    twirp_routes_that_there_are_not_are_told(client, version) {
        for (request, route) in [
            (twirp("/twirp", "Burn", JSON), "POST /twirp/trilane.library.v1.Library/Burn"),
            (twirp("/twirp", "GetBook", "text/plain"), "POST /twirp/trilane.library.v1.Library/GetBook"),
            (Request::get(format!("/twirp{GET_BOOK}")), "GET /twirp/trilane.library.v1.Library/GetBook"),
        ] {
            let answer = client.send(request, "").await;
            failed(&answer, 404, "bad_route", "");
            assert_eq!(answer.json()["meta"], json!({"twirp_invalid_route": route}), "{version}");
        }
    }

    a_method_that_changes_nothing_is_called_by_its_query(client, version) {
        let answer = client.get(&format!("{GET_BOOK}?name=shelves/1/books/2")).await;
        assert_eq!(answer.json()["title"], "Book 2 of shelf 1", "{version}");
        let answer = client.get(&format!("{GET_BOOK}?colour=red")).await;
        assert_eq!(answer.status, 400, "{version}");
        let answer = client.get("/trilane.library.v1.Library/DeleteBook?name=shelves/1/books/2").await;
        assert_eq!((answer.status.as_u16(), answer.field("allow")), (405, "POST, OPTIONS"), "{version}");
    }

    what_curl_posts_is_json(client, version) {
        let content = r#"{"name":"shelves/1/books/2"}"#;
        let curl = |kind: &str| match kind {
            "" => Request::post(GET_BOOK),
            kind => Request::post(GET_BOOK).header("content-type", kind),
        };
        for kind in ["", FORM] {
            let answer = client.send(curl(kind), content).await;
            assert_eq!(answer.json()["title"], "Book 2 of shelf 1", "{version} {kind:?}");
        }
        assert_eq!(client.send(curl("text/plain"), content).await.status, 415, "{version}");
    }

    json_is_streamed_one_after_the_other(client, version) {
        let one = |title: &str| json!({"parent": "shelves/6", "book": {"title": title}}).to_string();
        let both = [one("}"), one("two")];
        for (kind, content) in [(FORM, both.concat()), (JSON, both.join("\n\n ")), ("", both.concat())] {
            let import = Request::post("/v1/books:import");
            let import = if kind.is_empty() { import } else { import.header("content-type", kind) };
            let answer = client.send(import, content).await;
            assert_eq!(answer.json(), json!({"created": 2}), "{version} {kind:?}");
        }
        let import = Request::post("/v1/books:import").header("content-type", JSON);
        let answer = client.send(import, [&one("one"), "{\"parnt\":1}"].concat()).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("message 2: "), "{version}: {message}");
    }

    binary_is_streamed_behind_its_length(client, version) {
        let request = CreateBookRequest {
            parent: "shelves/6".into(),
            book: Some(Book { title: "x".repeat(200), ..Book::default() }),
        };
        let import = || Request::post("/v1/books:import").header("content-type", PROTOBUF);
        let content = delimited(&[request.clone(), request]);
        let answer = client.send(import(), content.clone()).await;
        assert_eq!(answer.field("content-type"), PROTOBUF, "{version}");
        assert_eq!(ImportBooksResponse::decode(answer.body).unwrap().created, 2, "{version}");
        let answer = client.send(import().header("accept", JSON), content[..content.len() - 1].to_vec()).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!((answer.status.as_u16(), &*message), (400, "message 2: the content ends within it"), "{version}");

        let watch = Request::get("/v1/shelves/5/books:watch?count=3").header("accept", PROTOBUF);
        let answer = client.send(watch, "").await;
        assert_eq!(answer.field("content-type"), PROTOBUF, "{version}");
        let mut rest: Bytes = answer.body;
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(WatchBooksResponse::decode_length_delimited(&mut rest).unwrap());
        }
        assert_eq!(all.len(), 3, "{version}");
        assert_eq!(all[2].book.as_ref().unwrap().title, "Book 3 of shelf 5", "{version}");
    }

    an_error_breaks_a_stream_of_binary_off(client, version) {
        let watch = Request::get("/v1/shelves/5/books:watch?follow=true")
            .header("accept", PROTOBUF)
            .header("grpc-timeout", "1S");
        assert!(client.try_send(watch, "").await.is_err(), "{version}");
    }

    the_health_is_told_over_http(client, version) {
        let check = "/grpc.health.v1.Health/Check";
        for path in ["/v1/healthz", "/v1/healthz?service=trilane.library.v1.Library", check] {
            assert_eq!(client.get(path).await.json(), json!({"status": "SERVING"}), "{version} {path}");
        }
        let post = client.send(Request::post(check), r#"{"service":"x"}"#).await;
        assert_eq!((post.status.as_u16(), post.json()["code"].as_u64()), (404, Some(5)), "{version}");
    }
}
