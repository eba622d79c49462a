//! Resource names: `shelves/{shelf}` and `shelves/{shelf}/books/{book}`.

use tonic::Status;

/// The shelf that a name names.
pub(super) fn shelf(name: &str) -> Result<u32, Status> {
    name.strip_prefix("shelves/")
        .and_then(number)
        .ok_or_else(|| wrong(name, "shelves/{number}"))
}

/// The shelf and the book that a name names.
pub(super) fn book(name: &str) -> Result<(u32, u32), Status> {
    name.strip_prefix("shelves/")
        .and_then(|rest| rest.split_once("/books/"))
        .and_then(|(shelf, book)| Some((number(shelf)?, number(book)?)))
        .ok_or_else(|| wrong(name, "shelves/{number}/books/{number}"))
}

/// The book's name.
pub(super) fn of_book(shelf: u32, book: u32) -> String {
    format!("shelves/{shelf}/books/{book}")
}

/// There is one name for each thing: no signs, no leading zeros.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.parse().ok()
}

fn wrong(name: &str, expected: &str) -> Status {
    let shown: String = name.chars().take(100).collect();
    Status::invalid_argument(format!("the name {shown:?} is not of the form {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form() {
        assert_eq!(shelf("shelves/10").unwrap(), 10);
        assert_eq!(book("shelves/1/books/200").unwrap(), (1, 200));
        assert_eq!(book(&of_book(3, 0)).unwrap(), (3, 0));
        for wrong in [
            "",
            "shelves/",
            "shelves/01",
            "shelves/+1",
            "shelves/a",
            "shelves/99999999999",
            "shelves/1/",
            "racks/1",
        ] {
            let status = shelf(wrong).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{wrong}");
            assert!(book(&format!("{wrong}/books/1")).is_err(), "{wrong}");
        }
        for wrong in ["shelves/1", "shelves/1/books", "shelves/1/books/1/x"] {
            assert!(book(wrong).is_err(), "{wrong}");
        }
    }
}
