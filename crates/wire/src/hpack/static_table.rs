//! The static table (RFC 7541 Appendix A).

/// A name and a value.
pub(super) type Pair = (&'static [u8], &'static [u8]);

/// Where a field stands in the static table, as the index on the wire.
pub(super) enum Found {
    /// Name and value.
    Both(usize),
    /// The name alone.
    Name(usize),
    /// Not at all.
    Nothing,
}

/// Looks a field up.
pub(super) fn find(name: &[u8], value: &[u8]) -> Found {
    let first = if matches!(name.first(), Some(b':' | b'a')) {
        STATIC[..SORTED].iter().position(|(n, _)| *n == name)
    } else {
        let found = STATIC[SORTED..].binary_search_by_key(&name, |(n, _)| *n);
        found.ok().map(|position| SORTED + position)
    };
    let Some(first) = first else {
        return Found::Nothing;
    };
    let same_name = STATIC[first..].iter().take_while(|(n, _)| *n == name);
    match same_name.zip(first..).find(|((_, v), _)| *v == value) {
        Some((_, position)) => Found::Both(position + 1),
        None => Found::Name(first + 1),
    }
}

/// From here on each name stands once, in order; before are the pseudo-fields and the names in `a`.
const SORTED: usize = 23;

/// The entries; the index on the wire is one more.
pub(super) const STATIC: [Pair; 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (position, (name, value)) in STATIC.iter().enumerate() {
            assert!(
                matches!(find(name, value), Found::Both(index) if index == position + 1),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_name_gives_the_first_entry_that_has_it() {
        assert!(matches!(find(b":status", b"418"), Found::Name(8)));
        assert!(matches!(find(b"vary", b"*"), Found::Name(59)));
        assert!(matches!(find(b":protocol", b""), Found::Nothing));
        assert!(matches!(find(b"x-y", b""), Found::Nothing));
    }
}
