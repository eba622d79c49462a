//! Every endpoint, over every version.

use std::{collections::BTreeSet, io::Read, time::Instant};

use crate::common::over_every_version;
use http::{Method, Request};
use serde_json::Value;

over_every_version! {
    hello_is_eleven_bytes(client, version) {
        for path in ["/", "/hello"] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200, "{version}");
            assert_eq!(answer.body, "hello world", "{version}");
            assert_eq!(answer.field("content-length"), "11", "{version}");
            assert!(answer.field("server").starts_with("trilane/"), "{version}");
            assert!(answer.field("date").ends_with(" GMT"), "{version}");
        }
    }

    the_tls_port_advertises_http3_to_those_who_lack_it(client, version) {
        let advertised = client.get("/").await.field("alt-svc").to_owned();
        match version {
            "h1s" | "h2" => assert!(advertised.starts_with("h3=\":"), "{version}: {advertised}"),
            _ => assert_eq!(advertised, "", "{version}"),
        }
    }

    bytes_are_as_many_as_asked(client, version) {
        let whole = client.get("/bytes/3m").await.body;
        assert_eq!(whole.len(), 3 << 20, "{version}");
        assert_eq!(whole[..1 << 20], whole[1 << 20..2 << 20], "{version}");
        for (path, length) in [("/bytes/0", 0), ("/bytes/1", 1), ("/bytes/70000", 70_000), ("/bytes/1M", 1 << 20)] {
            let answer = client.get(path).await;
            assert_eq!(answer.field("content-length"), length.to_string(), "{version} {path}");
            assert!(answer.body == whole[..length], "{version} {path}");
        }
    }

    status_is_the_one_asked_for(client, version) {
        for code in [200, 204, 304, 404, 418, 503, 599] {
            let answer = client.get(&format!("/status/{code}")).await;
            assert_eq!(answer.status, code, "{version}");
            assert_eq!(answer.body.is_empty(), code == 204 || code == 304, "{version} {code}");
        }
    }

    delay_waits_at_least_that_long(client, version) {
        let start = Instant::now();
        let answer = client.get("/delay/50ms").await;
        assert_eq!(answer.status, 200, "{version}");
        assert!(start.elapsed().as_millis() >= 50, "{version}");
    }

    echo_gives_the_body_back(client, version) {
        let body: Vec<u8> = (0..300_000u32).flat_map(u32::to_be_bytes).collect();
        let request = Request::post("/echo").header("content-type", "application/x-count");
        let answer = client.send(request, body.clone()).await;
        assert!(answer.body == body, "{version}");
        assert_eq!(answer.field("content-type"), "application/x-count", "{version}");
        assert_eq!(client.send(Request::put("/echo"), "").await.body, "", "{version}");
    }

    headers_tell_what_arrived(client, version) {
        let request = Request::builder()
            .method(Method::PATCH)
            .uri("/headers?a=b")
            .header("x-one", "1")
            .header("x-two", "2");
        let told = client.send(request, "ignored").await.json();
        assert_eq!(told["method"], "PATCH", "{version}");
        assert_eq!(told["path"], "/headers?a=b", "{version}");
        let spoken = if version == "h1s" { "h1" } else { version };
        assert_eq!(told["version"], spoken);
        assert_eq!(told["tls"].is_null(), matches!(version, "h1" | "h2c"), "{version}");
        if !told["tls"].is_null() {
            assert_eq!(told["tls"]["version"], "TLSv1.3");
            assert_eq!(told["tls"]["server_name"], "localhost");
        }
        assert!(told["authority"].as_str().unwrap().starts_with("localhost:"), "{version}");
        assert!(told["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{version}");
        let fields = told["fields"].as_array().unwrap();
        for pair in [["x-one", "1"], ["x-two", "2"]] {
            assert!(fields.iter().any(|field| *field == serde_json::json!(pair)), "{version}");
        }
    }

    the_bookstore_has_three_thousand_books(client, version) {
        let index = client.get("/books").await;
        assert_eq!(index.field("vary"), "accept-encoding", "{version}");
        let ids: Vec<String> = serde_json::from_slice(&index.body).unwrap();
        assert_eq!(ids.len(), 3000, "{version}");
        for id in [&ids[0], &ids[1500], &ids[2999]] {
            let book = client.get(&format!("/book?id={id}")).await.json();
            assert_eq!(book["id"], **id, "{version}");
            assert!(book["title"].is_string() && book["rating"].is_number(), "{version}");
        }
        assert_eq!(client.get("/book?id=4294967295").await.status, 404, "{version}");
    }

    texts_are_compressed_where_accepted(client, version) {
        for path in ["/books", "/site/log", "/bytes/8k?gzip=1"] {
            let plain = client.get(path).await;
            assert_eq!(plain.field("content-encoding"), "", "{version} {path}");
            let request = Request::get(path).header("accept-encoding", "br, gzip");
            let packed = client.send(request, "").await;
            assert_eq!(packed.field("content-encoding"), "gzip", "{version} {path}");
            assert_eq!(packed.field("vary"), "accept-encoding", "{version} {path}");
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut text).unwrap();
            assert!(text == plain.body, "{version} {path}");
        }
        for path in ["/hello", "/bytes/8k"] {
            let request = Request::get(path).header("accept-encoding", "gzip");
            assert_eq!(client.send(request, "").await.field("content-encoding"), "", "{path}");
        }
    }

    a_spider_finds_every_page(client, version) {
        for (first, pages) in [("/site", 11), ("/profiles", 120)] {
            let mut seen = BTreeSet::from([first.to_owned()]);
            let mut queue = vec![first.to_owned()];
            while let Some(path) = queue.pop() {
                let answer = client.get(&path).await;
                assert_eq!(answer.status, 200, "{version} {path}");
                let html = String::from_utf8(answer.body.to_vec()).unwrap();
                for rest in html.split("<a href=\"").skip(1) {
                    let link = rest.split('"').next().unwrap();
                    let path = &link[link.find(first).unwrap()..];
                    if seen.insert(path.to_owned()) {
                        queue.push(path.to_owned());
                    }
                }
            }
            assert_eq!(seen.len(), pages, "{version}: {seen:?}");
            let slashed = format!("{first}/");
            assert_eq!(client.get(&slashed).await.body, client.get(first).await.body);
            let none = format!("{first}/none");
            assert_eq!(client.get(&none).await.status, 404, "{version}");
        }
    }

    drip_takes_its_time_and_arrives_whole(client, version) {
        let pattern = client.get("/bytes/300k").await.body;
        for (path, length, least) in [
            ("/drip?bytes=40&duration=60ms", 40, 60),
            ("/drip?bytes=3&duration=30ms&delay=30ms", 3, 60),
            ("/drip?bytes=300k&duration=0", 300 << 10, 0),
            ("/drip?bytes=0&duration=1h", 0, 0),
        ] {
            let start = Instant::now();
            let answer = client.get(path).await;
            if path.ends_with("1h") {
                assert_eq!(answer.status, 400, "{version}");
                continue;
            }
            assert!(answer.body == pattern[..length], "{version} {path}");
            assert_eq!(answer.field("content-length"), length.to_string(), "{version} {path}");
            assert!(start.elapsed().as_millis() >= least, "{version} {path}");
        }
    }

    a_slow_body_does_not_hold_its_head_back(client, version) {
        assert_eq!(client.status("/drip?bytes=2&duration=10m").await, 200, "{version}");
    }

    unknown_paths_list_the_endpoints(client, version) {
        let answer = client.get("/nowhere").await;
        assert_eq!(answer.status, 404, "{version}");
        assert_eq!(answer.field("content-type"), "application/json", "{version}");
        let told = answer.json();
        assert_eq!(told["value"], "/nowhere", "{version}");
        let paths: Vec<&Value> = told["endpoints"].as_array().unwrap().iter().map(|e| &e["path"]).collect();
        assert!(paths.contains(&&Value::from("/hello")), "{paths:?}");
    }

    values_that_make_no_sense_are_named(client, version) {
        for (path, value) in [
            ("/bytes/many", "many"), ("/bytes/", ""), ("/bytes/2g", "2g"), ("/bytes/-1", "-1"),
            ("/status/99", "99"), ("/status/600", "600"), ("/status/abc", "abc"),
            ("/delay/soon", "soon"), ("/delay/11m", "11m"), ("/delay/-1s", "-1s"),
            ("/drip?bytes=x", "x"), ("/drip?duration=y", "y"), ("/drip?delay=z", "z"),
            ("/book", ""), ("/book?id=one", "one"), ("/book?id=-1", "-1"),
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 400, "{version} {path}");
            assert_eq!(answer.json()["value"], value, "{version} {path}");
            assert!(answer.json()["expected"].is_string(), "{version} {path}");
        }
    }

    any_method_and_any_body_are_taken(client, version) {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            let request = Request::builder().method(method).uri("/hello");
            let answer = client.send(request, vec![b'x'; 100_000]).await;
            assert_eq!(answer.body, "hello world", "{version} {method}");
        }
    }

    head_has_the_fields_and_no_content(client, version) {
        for path in ["/hello", "/bytes/5000000", "/books", "/site", "/status/404"] {
            let get = client.get(path).await;
            let head = client.send(Request::head(path), "").await;
            assert_eq!(head.status, get.status, "{version} {path}");
            assert!(head.body.is_empty(), "{version} {path}");
            assert_eq!(head.field("content-length"), get.body.len().to_string(), "{version} {path}");
        }
        assert!(client.send(Request::head("/echo"), "").await.body.is_empty(), "{version}");
    }
}
