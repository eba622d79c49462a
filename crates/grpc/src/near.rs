//! Names in the order of their likeness to one that does not exist.

/// The most names that a sentence lists.
const LISTED: usize = 12;
/// Names less alike than this are not offered as what was meant.
const ALIKE: f64 = 0.75;

fn likeness(wanted: &str, name: &str) -> f64 {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    // What was typed is often the last part of the name, or the name without underscores.
    let plain = |text: &str| text.replace(['_', '-'], "");
    if plain(&wanted) == plain(&name) {
        return 1.0;
    }
    let tail = |long: &str, short: &str| {
        long.strip_suffix(short)
            .is_some_and(|rest| !short.is_empty() && rest.ends_with('.'))
    };
    if tail(&name, &wanted) || tail(&wanted, &name) {
        return 0.99;
    }
    strsim::jaro_winkler(&wanted, &name)
}

/// The name that was probably meant.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (likeness(wanted, name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `a, b and 3 more`, the likest first.
pub fn list<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names
        .into_iter()
        .map(|name| (likeness(wanted, name), name))
        .collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let shown: Vec<_> = names.iter().take(LISTED).map(|(_, name)| *name).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["a.v1.Library", "a.v1.Catalog", "grpc.health.v1.Health"];

    #[test]
    fn the_likest_name_is_meant() {
        assert_eq!(nearest("Library", NAMES), Some("a.v1.Library"));
        assert_eq!(nearest("b.v1.Library", NAMES), Some("a.v1.Library"));
        assert_eq!(
            nearest("pageSise", ["page_size", "pages"]),
            Some("page_size")
        );
        assert_eq!(nearest("qwx", NAMES), None);
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(
            list("a.v1.Catalogue", NAMES),
            "a.v1.Catalog, a.v1.Library, grpc.health.v1.Health"
        );
        let many: Vec<_> = (10..40).map(|number| number.to_string()).collect();
        let text = list("10", many.iter().map(String::as_str));
        assert!(
            text.starts_with("10, ") && text.ends_with(" and 18 more"),
            "{text}"
        );
    }
}
