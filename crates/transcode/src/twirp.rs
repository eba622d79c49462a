//! What Twirp makes of errors (<https://twitchtv.github.io/twirp/docs/spec_v7.html>).
//!
//! Its messages are those of REST without a rule: the message is the content, in JSON or in binary.

use crate::{connect, status::quoted};

/// The content of a request cannot be read.
pub const MALFORMED: &str = "malformed";
/// No method has the path, or takes such a request.
pub const BAD_ROUTE: &str = "bad_route";

/// The name of a code of gRPC that is an error; `unknown` for what is none.
#[must_use]
pub fn code(code: u32) -> &'static str {
    // The two protocols have the same names.
    connect::code(code)
}

/// The status of HTTP for the name of a code.
///
/// For `resource_exhausted` it is the 429 that implementations have had since version 7.
#[must_use]
pub fn http_status(code: &str) -> u16 {
    match code {
        "canceled" | "deadline_exceeded" => 408,
        "invalid_argument" | MALFORMED | "out_of_range" => 400,
        "not_found" | BAD_ROUTE => 404,
        "already_exists" | "aborted" => 409,
        "permission_denied" => 403,
        "unauthenticated" => 401,
        "resource_exhausted" => 429,
        "failed_precondition" => 412,
        "unimplemented" => 501,
        "unavailable" => 503,
        _ => 500,
    }
}

/// An error in JSON: `{"code","msg"}`; of a route that there is not, with `{"meta":{"twirp_invalid_route"}}`,
/// which is `route`.
#[must_use]
pub fn error(code: &str, message: &str, route: Option<&str>) -> Vec<u8> {
    let mut out = format!(r#"{{"code":"{code}","msg":{}"#, quoted(message));
    if let Some(route) = route {
        out.push_str(r#","meta":{"twirp_invalid_route":"#);
        out.push_str(&quoted(route));
        out.push('}');
    }
    out.push('}');
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_grpc_has_its_name_and_status() {
        let table = [
            (1, "canceled", 408),
            (2, "unknown", 500),
            (3, "invalid_argument", 400),
            (4, "deadline_exceeded", 408),
            (5, "not_found", 404),
            (6, "already_exists", 409),
            (7, "permission_denied", 403),
            (8, "resource_exhausted", 429),
            (9, "failed_precondition", 412),
            (10, "aborted", 409),
            (11, "out_of_range", 400),
            (12, "unimplemented", 501),
            (13, "internal", 500),
            (14, "unavailable", 503),
            (15, "data_loss", 500),
            (16, "unauthenticated", 401),
            (99, "unknown", 500),
        ];
        for (number, name, status) in table {
            assert_eq!((code(number), http_status(name)), (name, status));
        }
    }

    #[test]
    fn an_error_is_json() {
        let plain = error("internal", "a \"b\"", None);
        assert_eq!(plain, br#"{"code":"internal","msg":"a \"b\""}"#);
        let route = error(BAD_ROUTE, "no", Some("GET /x"));
        let expected =
            br#"{"code":"bad_route","msg":"no","meta":{"twirp_invalid_route":"GET /x"}}"#;
        assert_eq!(route, expected);
    }
}
