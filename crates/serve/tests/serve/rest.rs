//! The library service by HTTP alone, over every version.

use http::Request;
use prost::Message;
use serde_json::{Value, json};

use crate::{
    channel::proto::Book,
    common::{Answer, over_every_version, run, start},
};

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

fn refusal(answer: &Answer, status: u16, code: u64, word: &str) {
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.field("content-type"), JSON, "{text}");
    assert_eq!(answer.json()["code"], code, "{text}");
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(word), "{word:?} in {message:?}");
}

fn lines(answer: &Answer) -> Vec<Value> {
    let text = std::str::from_utf8(&answer.body).unwrap();
    assert!(text.ends_with('\n'));
    let line = |line| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

over_every_version! {
    books_are_created_listed_changed_and_removed(client, version) {
        let create = Request::post("/v1/shelves/4/books").header("content-type", JSON);
        let book = client.send(create, r#"{"title":"Ümit","labels":["a","b"]}"#).await;
        assert_eq!(book.status, 200, "{version}");
        let name = book.json()["name"].as_str().unwrap().to_owned();
        assert_eq!(name, "shelves/4/books/101");

        let path = format!("/v1/{name}");
        let patch = Request::patch(format!("{path}?updateMask=title,edition.year"))
            .header("content-type", "application/json; charset=utf-8");
        let content = r#"{"title":"New","pages":9,"edition":{"year":2026,"publisher":"x"}}"#;
        let book = client.send(patch, content).await;
        let expected = json!({
            "name": name, "title": "New", "labels": ["a", "b"], "edition": {"year": 2026},
        });
        assert_eq!(book.json(), expected, "{version}");

        let patch = Request::patch(&path).header("content-type", "application/protobuf");
        let content = Book { title: "Binary".into(), ..Book::default() }.encode_to_vec();
        let book = client.send(patch, content).await;
        assert_eq!(book.field("content-type"), "application/protobuf", "as the content");
        assert_eq!(Book::decode(book.body).unwrap().title, "Binary", "{version}");

        let gone = client.send(Request::delete(&path), "").await;
        assert_eq!((gone.status.as_u16(), gone.json()), (200, json!({})), "{version}");
        refusal(&client.get(&path).await, 404, 5, &name);

        let page = client.get("/v1/shelves/4/books?pageSize=2&filter.read=true").await.json();
        assert_eq!(page["books"][1]["name"], "shelves/4/books/4", "{version}");
        let next = format!("/v1/shelves/4/titles?page_size=1&page_token={}", page["nextPageToken"].as_str().unwrap());
        let titles = client.get(&next).await.json();
        assert_eq!(titles[0]["title"], "Book 5 of shelf 4", "response_body: {titles}");
    }

    errors_are_statuses_with_the_http_code(client, version) {
        for (path, status, code, word) in [
            ("/v1/shelves/1/books/999", 404, 5, "shelves/1/books/999"),
            ("/v1/shelves/one/books/1", 400, 3, "shelves/one"),
            ("/v1/shelves/1/books?pageSize=-1", 400, 3, "page_size"),
            ("/v1/shelves/1/books?pageSize=many", 400, 3, "pageSize"),
            ("/v1/shelves/1/books?colour=red", 400, 3, "colour"),
            ("/v1/shelves/1/books:watch?count=-1", 400, 3, "count"),
            ("/v1/shelves/99/books:watch", 404, 5, "shelves/99"),
            ("/v1/nothing", 404, 5, "/v1/nothing"),
        ] {
            refusal(&client.get(path).await, status, code, word);
        }
        let create = || Request::post("/v1/shelves/1/books");
        let labels = json!({ "labels": vec!["x"; 101] }).to_string();
        let many = client.send(create().header("content-type", JSON), labels).await;
        refusal(&many, 429, 8, "101");
        let bad = client.send(create().header("content-type", JSON), r#"{"pages":"x"}"#).await;
        refusal(&bad, 400, 3, "pages");
        let form = create().header("content-type", "application/x-www-form-urlencoded");
        refusal(&client.send(form, "a=b").await, 400, 3, "JSON");
        let text = create().header("content-type", "text/plain");
        refusal(&client.send(text, "{}").await, 415, 3, JSON);
        let html = Request::get("/v1/shelves/1/books/1").header("accept", "text/html");
        refusal(&client.send(html, "").await, 406, 3, JSON);
        let binary = Request::get("/v1/shelves/1/books/0").header("accept", "application/protobuf");
        let binary = client.send(binary, "").await;
        assert_eq!(binary.field("content-type"), "application/protobuf", "{version}");
        // google.rpc.Status: the code is field 1.
        assert_eq!(binary.body[..2], [8, 5], "{version}");
    }

    content_is_four_mebibytes_at_most(client, version) {
        let create = Request::post("/v1/shelves/1/books").header("content-type", JSON);
        let content = format!(r#"{{"title":"{}"}}"#, "x".repeat(5 << 20));
        refusal(&client.send(create, content).await, 413, 8, "4194304");
        let import = Request::post("/v1/books:import").header("content-type", NDJSON);
        refusal(&client.send(import, "x".repeat(5 << 20)).await, 413, 8, "4194304");
    }

    methods_of_http_are_told(client, version) {
        let put = client.send(Request::put("/v1/shelves/1/books/1"), "{}").await;
        refusal(&put, 405, 12, "PUT");
        assert_eq!(put.field("allow"), "DELETE, GET, PATCH, HEAD, OPTIONS", "{version}");
        let options = Request::options("/v1/shelves/1/books");
        let options = client.send(options, "").await;
        assert_eq!((options.status.as_u16(), options.field("allow")), (204, "GET, POST, HEAD, OPTIONS"));
        let get = client.get("/v1/shelves/1/books/1").await;
        let head = client.send(Request::head("/v1/shelves/1/books/1"), "").await;
        assert_eq!(head.status, 200, "{version}");
        assert_eq!(head.field("content-length"), get.body.len().to_string(), "{version}");
        assert!(head.body.is_empty(), "{version}");
        let socket = client.get("/v1/books:lookUp").await;
        refusal(&socket, 426, 12, "WebSocket");
        assert_eq!(socket.field("upgrade"), if version.starts_with("h1") { "websocket" } else { "" }, "{version}");
    }

    streams_are_lines_or_events(client, version) {
        let answer = client.get("/v1/shelves/5/books:watch?count=150").await;
        assert_eq!(answer.field("content-type"), NDJSON, "{version}");
        let books = lines(&answer);
        assert_eq!(books.len(), 150, "{version}");
        assert_eq!(books[149]["book"]["name"], "shelves/5/books/50");
        assert_eq!(books[0]["change"], "PRESENT");

        let path = "/v1/shelves/5/books:watch?count=3&interval=0.01s";
        let request = Request::get(path).header("accept", "text/event-stream");
        let answer = client.send(request, "").await;
        assert_eq!(answer.field("content-type"), "text/event-stream", "{version}");
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let events: Vec<Value> = text
            .split_terminator("\n\n")
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect();
        assert_eq!(events.len(), 3, "{version}");
        assert_eq!(events[2]["book"]["title"], "Book 3 of shelf 5");
    }

    streams_begin_before_they_end(client, version) {
        assert_eq!(client.status("/v1/shelves/5/books:watch?follow=true").await, 200, "{version}");
    }

    errors_end_streams_that_have_begun(client, version) {
        let path = "/v1/shelves/5/books:watch?follow=true";
        let answer = client.send(Request::get(path).header("grpc-timeout", "1S"), "").await;
        let all = lines(&answer);
        assert_eq!(all.len(), 101, "{version}");
        assert_eq!(all[100]["error"]["code"], 4, "{version}: DEADLINE_EXCEEDED");
        let request = Request::get(path).header("grpc-timeout", "1S").header("accept", "text/event-stream");
        let text = String::from_utf8(client.send(request, "").await.body.to_vec()).unwrap();
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.starts_with("event: error\ndata: {\"code\":4,"), "{version} {last}");
    }

    imports_are_lines(client, version) {
        let line = |n| format!("{{\"parent\":\"shelves/6\",\"book\":{{\"title\":\"{n}\"}}}}\n");
        let content: String = (0..300).map(line).collect();
        let import = || Request::post("/v1/books:import").header("content-type", NDJSON);
        let answer = client.send(import(), content.trim_end().to_owned()).await;
        assert_eq!(answer.json(), json!({ "created": 300 }), "{version}");
        assert_eq!(client.get("/v1/shelves/6/books/400").await.json()["title"], "299");

        let bad = [&line(1), "\n", r#"{"parnt":1}"#].concat();
        refusal(&client.send(import(), bad).await, 400, 3, "line 3");
        let missing = r#"{"parent":"shelves/77","book":{}}"#;
        refusal(&client.send(import(), missing).await, 404, 5, "shelves/77");
        let one = Request::post("/v1/books:import").header("content-type", JSON);
        let answer = client.send(one, "{\n\"parent\": \"shelves/6\",\n\"book\": {}}").await;
        assert_eq!(answer.json(), json!({ "created": 1 }), "{version}");
        let other = Request::post("/v1/books:import").header("content-type", "text/csv");
        refusal(&client.send(other, "a,b").await, 415, 3, NDJSON);
        let empty = client.send(import(), "").await;
        assert_eq!(empty.status, 200, "{version}");
    }
}

#[test]
fn lines_are_taken_while_more_come() {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    let target = start();
    run(async {
        let address = target.server.addresses().http;
        let mut follower = tokio::net::TcpStream::connect(address).await.unwrap();
        let get = "GET /v1/shelves/8/books:watch?follow=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
        follower.write_all(get.as_bytes()).await.unwrap();
        let mut heard = BufReader::new(follower).lines();
        let mut hear = async |word: &str| {
            while !heard.next_line().await.unwrap().unwrap().contains(word) {}
        };
        hear("shelves/8/books/100\"").await;

        let mut importer = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = "POST /v1/books:import HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                    content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
        importer.write_all(head.as_bytes()).await.unwrap();
        for number in 101..104 {
            let line = "{\"parent\":\"shelves/8\",\"book\":{}}\n";
            let chunk = format!("{:x}\r\n{line}\r\n", line.len());
            importer.write_all(chunk.as_bytes()).await.unwrap();
            hear(&format!("shelves/8/books/{number}\"")).await;
        }
        importer.write_all(b"0\r\n\r\n").await.unwrap();
        let mut response = String::new();
        importer.read_to_string(&mut response).await.unwrap();
        assert!(response.ends_with("{\"created\":3}"), "{response}");
    });
}

#[test]
fn an_import_that_fails_does_not_wait_for_its_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let target = start();
    run(async {
        let address = target.server.addresses().http;
        for (line, status) in [
            (r#"{"parent":"shelves/77","book":{}}"#, "404"),
            (r#"{"parnt":1}"#, "400"),
        ] {
            let mut importer = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = "POST /v1/books:import HTTP/1.1\r\nhost: localhost\r\n\
                        content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = format!("{head}{:x}\r\n{line}\n\r\n", line.len() + 1);
            importer.write_all(chunk.as_bytes()).await.unwrap();
            let mut response = String::new();
            let answered = importer.read_to_string(&mut response);
            // Far below the 30 s after which a silent upload is given up.
            let limit = std::time::Duration::from_secs(20);
            tokio::time::timeout(limit, answered)
                .await
                .unwrap()
                .unwrap();
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status} ")),
                "{response}"
            );
        }
    });
}
