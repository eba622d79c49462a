use super::*;

fn parts<'a>(fields: &'a [(String, String)], path: &'a str) -> RequestParts<'a> {
    RequestParts {
        method: "GET",
        scheme: "http",
        authority: "a.example:81",
        path,
        fields,
        body: Arc::from([]),
        repeated: true,
    }
}

fn field(name: &str, value: &str) -> [(String, String); 1] {
    [(name.into(), value.into())]
}

#[test]
fn a_request_is_written_as_http_1_text() {
    let fields = field("Accept", "*/*");
    let request = Request::new(&parts(&fields, "/x?y=1")).unwrap();
    assert_eq!(
        request.h1_head(),
        b"GET /x?y=1 HTTP/1.1\r\nHost: a.example:81\r\nAccept: */*\r\n\r\n"
    );
}

#[test]
fn a_host_field_replaces_the_authority() {
    let fields = field("HOST", "b.example");
    let request = Request::new(&parts(&fields, "/")).unwrap();
    assert_eq!(
        request.h1_head(),
        b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"
    );
    let authority = request.fields().nth(2).unwrap();
    assert_eq!(
        authority,
        (&b":authority"[..], &b"b.example"[..], Indexing::Incremental)
    );
}

#[test]
fn secrets_are_never_indexed() {
    let fields = field("Cookie", "a=b");
    let request = Request::new(&parts(&fields, "/")).unwrap();
    assert_eq!(
        request.fields().last().unwrap(),
        (&b"cookie"[..], &b"a=b"[..], Indexing::Never)
    );
}

#[test]
fn input_that_would_split_the_request_is_refused() {
    for value in ["a\r\nb: c", "a\nb", "a\0", " a"] {
        let fields = field("X", value);
        assert_eq!(
            Request::new(&parts(&fields, "/")).unwrap_err(),
            RequestError::FieldValue("X".into())
        );
    }
    for path in ["x", "/a b", "/\r\n", "*", "/é"] {
        assert_eq!(
            Request::new(&parts(&[], path)).unwrap_err(),
            RequestError::Path(path.into())
        );
    }
    for name in ["", "a b", "a:", "transfer-encoding", "content-length"] {
        assert!(
            Request::new(&parts(&field(name, "7"), "/")).is_err(),
            "{name}"
        );
    }
}

#[test]
fn a_body_announces_its_length() {
    let mut post = parts(&[], "/");
    post.method = "POST";
    assert!(
        Request::new(&post)
            .unwrap()
            .h1_head()
            .ends_with(b"Content-Length: 0\r\n\r\n")
    );
    post.body = Arc::from(*b"abc");
    assert!(
        Request::new(&post)
            .unwrap()
            .h1_head()
            .ends_with(b"Content-Length: 3\r\n\r\n")
    );
}
