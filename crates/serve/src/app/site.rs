//! Linked pages for a spider: eleven, as the post behind the `spider` experiment had, and a larger
//! site of profiles, whose first pages lead further than the fifty that `requests-walk` follows.
//!
//! Half of the links are absolute, so they have to name the authority that the client used.

use std::{
    collections::HashMap,
    fmt::Write,
    iter::once,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    gzip::Text,
    prose::{Random, capital, sentence},
};

/// The first page, then the ten that it leads to.
const PAGES: [(&str, &str); 11] = [
    ("", "The station"),
    ("arrivals", "Arrivals"),
    ("archive", "The archive"),
    ("charts", "Star charts"),
    ("crew", "The crew"),
    ("engine-room", "Engine room"),
    ("garden", "The garden"),
    ("log", "Captain's log"),
    ("observatory", "Observatory"),
    ("signals", "Signals"),
    ("supplies", "Supplies"),
];
/// Profiles beside the first page, which lists some of them.
const PROFILES: usize = 119;
const SEED: u64 = 0x7370_6964_6572;
/// Renderings kept, one per authority. Who asks by more names pays for the rendering.
const MAX_RENDERINGS: usize = 16;
/// RFC 1035 names are shorter, with a port too.
const MAX_AUTHORITY: usize = 263;

/// Pages, where they lie and how they lead to each other.
struct Plan {
    prefix: &'static str,
    /// Name in the path and title; the first page has no name.
    pages: Vec<(String, String)>,
    ahead: fn(place: usize, pages: usize) -> Range<usize>,
}

/// A site, rendered for those authorities that asked for it.
pub(super) struct Site {
    plan: Plan,
    renderings: Mutex<HashMap<String, Arc<Pages>>>,
}

/// The pages in one rendering.
pub(super) struct Pages {
    texts: Vec<Text>,
    places: HashMap<String, usize>,
}

impl Site {
    /// Eleven pages under `/site`: a spider has to go three deep.
    pub(super) fn station() -> Self {
        let pages = PAGES.map(|(name, title)| (name.to_owned(), title.to_owned()));
        Self::new(Plan {
            prefix: "/site",
            pages: pages.to_vec(),
            // The first page leads to five others, which lead on.
            ahead: |place, pages| match place {
                0 => 1..6,
                place => place..(place + 3).min(pages),
            },
        })
    }

    /// A hundred and twenty pages under `/profiles`, each of which leads to up to four new ones.
    pub(super) fn profiles() -> Self {
        let named = (1..=PROFILES).map(|n| (n.to_string(), format!("Profile {n}")));
        Self::new(Plan {
            prefix: "/profiles",
            pages: once((String::new(), "Profiles".to_owned()))
                .chain(named)
                .collect(),
            ahead: |place, pages| (4 * place + 1).min(pages)..(4 * place + 5).min(pages),
        })
    }

    fn new(plan: Plan) -> Self {
        Self {
            plan,
            renderings: Mutex::default(),
        }
    }

    pub(super) fn pages(&self, scheme: &str, authority: &str) -> Arc<Pages> {
        let origin = match is_plain(authority) {
            true => format!("{scheme}://{authority}"),
            // What could not be a link is left away: the link becomes a relative one.
            false => String::new(),
        };
        // A panic elsewhere cannot have left a rendering half inserted.
        let mut renderings = self
            .renderings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(pages) = renderings.get(&origin) {
            return pages.clone();
        }
        let pages = Arc::new(Pages::render(&self.plan, &origin));
        if renderings.len() >= MAX_RENDERINGS {
            renderings.clear();
        }
        renderings.insert(origin, pages.clone());
        pages
    }
}

/// The client chose this text, and it goes into HTML.
fn is_plain(authority: &str) -> bool {
    (1..=MAX_AUTHORITY).contains(&authority.len())
        && authority
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

impl Pages {
    pub(super) fn get(&self, name: &str) -> Option<&Text> {
        self.texts.get(*self.places.get(name)?)
    }

    fn render(plan: &Plan, origin: &str) -> Self {
        let mut random = Random::new(SEED);
        let names = plan.pages.iter().map(|(name, _)| name.clone());
        Self {
            texts: (0..plan.pages.len())
                .map(|place| Text::new(render_page(&mut random, plan, place, origin)))
                .collect(),
            places: names.zip(0..).collect(),
        }
    }
}

fn render_page(random: &mut Random, plan: &Plan, place: usize, origin: &str) -> String {
    let (_, title) = &plan.pages[place];
    let mut html = String::with_capacity(8 << 10);
    let link = |html: &mut String, to: usize, absolute: bool| {
        let (name, title) = &plan.pages[to];
        let origin = if absolute { origin } else { "" };
        // The first page's own address has no slash at the end: spiders cut it off.
        let slash = if name.is_empty() { "" } else { "/" };
        let prefix = plan.prefix;
        // A `write!` to a String does not fail.
        let _ = writeln!(
            html,
            "<li><a href=\"{origin}{prefix}{slash}{name}\">{title}</a></li>"
        );
    };
    let _ = writeln!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n<nav>\n<ul>"
    );
    link(&mut html, 0, place.is_multiple_of(2));
    for to in (plan.ahead)(place, plan.pages.len()) {
        link(&mut html, to, to % 2 == 1);
    }
    html.push_str("</ul>\n</nav>\n");
    for _ in 0..4 + random.below(12) {
        let heading = capital(random.pick(super::prose::NOUNS));
        let _ = write!(html, "<h2>{heading}</h2>\n<p>");
        for _ in 0..3 + random.below(5) {
            html.push_str(&sentence(random));
            html.push('\n');
        }
        html.push_str("</p>\n");
    }
    html.push_str("</body>\n</html>\n");
    html
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

    /// What the two patterns of the post find: `<a href="https://AUTHORITY(/\S+)"` and
    /// `<a href="(/[^/]\S+)"`, with greedy runs of non-space.
    fn links(html: &str, origin: &str) -> Vec<String> {
        html.split("<a href=\"")
            .skip(1)
            .filter_map(|rest| {
                let run = rest.split_ascii_whitespace().next()?;
                let target = &run[..run.rfind('"')?];
                let path = target.strip_prefix(origin).unwrap_or(target);
                Some(path.trim_end_matches('/').to_owned())
            })
            .collect()
    }

    /// The paths that a spider finds from the first page, and how many links were absolute.
    fn crawl(site: &Site, prefix: &str) -> (BTreeSet<String>, usize) {
        let origin = "https://localhost:8443";
        let pages = site.pages("https", "localhost:8443");
        let mut seen = BTreeSet::from([prefix.to_owned()]);
        let mut queue = VecDeque::from([prefix.to_owned()]);
        let mut absolute = 0;
        while let Some(path) = queue.pop_front() {
            let name = path.strip_prefix(prefix).unwrap().trim_start_matches('/');
            let html = std::str::from_utf8(pages.get(name).unwrap().plain()).unwrap();
            absolute += html.matches("<a href=\"https://").count();
            assert!((2000..40_000).contains(&html.len()), "{} bytes", html.len());
            for path in links(html, origin) {
                if seen.insert(path.clone()) {
                    queue.push_back(path);
                }
            }
        }
        (seen, absolute)
    }

    #[test]
    fn a_spider_finds_eleven_pages() {
        let (seen, absolute) = crawl(&Site::station(), "/site");
        assert_eq!(seen.len(), 11, "{seen:?}");
        assert!(absolute >= 11, "{absolute} absolute links");
    }

    #[test]
    fn a_spider_finds_every_profile() {
        let (seen, absolute) = crawl(&Site::profiles(), "/profiles");
        assert_eq!(seen.len(), PROFILES + 1);
        assert!(absolute > PROFILES / 2, "{absolute} absolute links");
    }

    #[test]
    fn an_authority_that_is_no_name_does_not_reach_the_page() {
        let site = Site::station();
        for nasty in ["\"><script>", "a b", "", &"a".repeat(300)] {
            let pages = site.pages("http", nasty);
            let html = std::str::from_utf8(pages.get("").unwrap().plain()).unwrap();
            assert!(!html.contains("<script") && !html.contains("http://"));
        }
    }

    #[test]
    fn renderings_are_bounded() {
        let site = Site::station();
        for number in 0..100 {
            site.pages("http", &format!("host-{number}"));
        }
        assert!(site.renderings.lock().unwrap().len() <= MAX_RENDERINGS);
    }
}
