//! A bookstore of 3,000 science-fiction books, as the post behind the `bookstore` experiment had.
//!
//! Titles, authors and texts are made up from a fixed seed: every build and every run serves the
//! same bytes.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use serde_json::{Value, json};

use super::{
    gzip::Text,
    prose::{ADJECTIVES, NOUNS, PLACES, Random, capital, sentence},
};

const BOOKS: usize = 3000;
const SEED: u64 = 0x7472_696c_616e_6531;
const MIN_DESCRIPTION: usize = 300;
const MAX_DESCRIPTION: usize = 2500;

const FIRST_NAMES: &[&str] = &[
    "Ada", "Aiko", "Alma", "Anselm", "Beatriz", "Bogdan", "Cassian", "Chidi", "Dagny", "Darius",
    "Edith", "Emeka", "Farah", "Felix", "Greta", "Hiro", "Ines", "Ivo", "Jana", "Joachim", "Kavya",
    "Leopold", "Lin", "Magda", "Matteo", "Nadia", "Niels", "Octavia", "Oleg", "Paloma", "Quentin",
    "Rosa", "Samir", "Signe", "Tadeusz", "Ulla", "Viktor", "Wanda", "Yusuf", "Zofia",
];
const LAST_NAMES: &[&str] = &[
    "Abernathy",
    "Achterberg",
    "Adeyemi",
    "Bellweather",
    "Castellan",
    "Chandrasekhar",
    "Dahlgren",
    "Delacroix",
    "Eriksen",
    "Falkenrath",
    "Ferreira",
    "Gallagher",
    "Halloran",
    "Ishikawa",
    "Jablonski",
    "Karvonen",
    "Kowalczyk",
    "Lindqvist",
    "Marchetti",
    "Moreau",
    "Nakamura",
    "Oyelaran",
    "Pemberton",
    "Quispe",
    "Rasmussen",
    "Sandoval",
    "Szymborski",
    "Takahashi",
    "Underhill",
    "Vandermeer",
    "Whitlock",
    "Xu",
    "Yamamoto",
    "Zielinski",
];
const GENRES: &[&str] = &[
    "Space Opera",
    "Cyberpunk",
    "Hard Science Fiction",
    "Dystopia",
    "First Contact",
    "Time Travel",
    "Post-Apocalyptic",
    "Military Science Fiction",
    "Artificial Intelligence",
    "Alternate History",
    "Short Stories",
    "Classics",
    "Young Adult",
    "Adventure",
    "Mystery",
    "Philosophy",
    "Horror",
    "Climate Fiction",
];
const PUBLISHERS: &[&str] = &[
    "Meridian House",
    "Blue Dwarf Press",
    "Orbital Books",
    "Gantry & Sons",
    "Perihelion",
    "Long Baseline",
    "The Antenna Press",
    "Third Moon",
];
const FORMATS: &[&str] = &[
    "Paperback",
    "Hardcover",
    "Mass Market Paperback",
    "ebook",
    "Audiobook",
];
const LANGUAGES: &[&str] = &[
    "English", "English", "English", "English", "Polish", "Japanese",
];

/// The stock: its index and every book, rendered once.
pub(super) struct Bookstore {
    index: Text,
    books: HashMap<u32, Text>,
}

impl Bookstore {
    /// JSON array of the ids, as strings.
    pub(super) fn index(&self) -> &Text {
        &self.index
    }

    /// One book as a JSON object.
    pub(super) fn book(&self, id: u32) -> Option<&Text> {
        self.books.get(&id)
    }

    fn write() -> Self {
        let mut random = Random::new(SEED);
        let ids: Vec<u32> = (0..BOOKS)
            .scan(0, |id, _| {
                // At most 3,000 steps of 2,000.
                *id += 1 + random.below(2000) as u32;
                Some(*id)
            })
            .collect();
        let mut titles = HashSet::with_capacity(BOOKS);
        let books = ids
            .iter()
            .map(|&id| {
                let mut book = write_book(&mut random, id, &ids, &mut titles);
                // The same bytes also where a dependency has serde_json keep the order of keys.
                book.sort_all_objects();
                (id, Text::new(book.to_string()))
            })
            .collect();
        let index: Vec<String> = ids.iter().map(u32::to_string).collect();
        Self {
            index: Text::new(json!(index).to_string()),
            books,
        }
    }
}

/// The bookstore of this process, written at the first call.
pub(super) fn shared() -> &'static Bookstore {
    static BOOKSTORE: OnceLock<Bookstore> = OnceLock::new();
    BOOKSTORE.get_or_init(Bookstore::write)
}

fn write_book(random: &mut Random, id: u32, ids: &[u32], titles: &mut HashSet<String>) -> Value {
    let mut title = write_title(random);
    while !titles.insert(title.clone()) {
        title = write_title(random);
    }
    let author = format!("{} {}", random.pick(FIRST_NAMES), random.pick(LAST_NAMES));
    let fame = 5 + random.below(15);
    let ratings = 20 + random.below(1 << fame);
    let mut genres = vec!["Science Fiction"];
    for _ in 0..1 + random.below(5) {
        let genre = random.pick(GENRES);
        if !genres.contains(&genre) {
            genres.push(genre);
        }
    }
    let similar: Vec<String> = (0..random.below(6))
        .map(|_| ids[random.below(ids.len())].to_string())
        .collect();
    let series = (random.below(3) == 0).then(|| {
        let name = capital(random.pick(NOUNS));
        json!({ "name": format!("The {name} Cycle"), "number": 1 + random.below(7) })
    });
    json!({
        "id": id.to_string(),
        "title": title,
        "author": author,
        "series": series,
        "year": 1895 + random.below(130),
        "pages": 96 + random.below(800),
        "isbn": write_isbn(random),
        "rating": (250 + random.below(230)) as f64 / 100.0,
        "ratings_count": ratings,
        "reviews_count": ratings / (8 + random.below(30)),
        "genres": genres,
        "publisher": random.pick(PUBLISHERS),
        "format": random.pick(FORMATS),
        "language": random.pick(LANGUAGES),
        "cover": format!("/covers/{}/{id}.jpg", id / 1000),
        "similar": similar,
        "description": write_description(random),
    })
}

fn write_title(random: &mut Random) -> String {
    let (adjective, noun) = (random.pick(ADJECTIVES), random.pick(NOUNS));
    let title = match random.below(6) {
        0 => format!("the {adjective} {noun}"),
        1 => format!("the {noun} of the {adjective} {}", random.pick(NOUNS)),
        2 => format!("{adjective} {noun}, {adjective} {}", random.pick(NOUNS)),
        3 => format!("a {noun} {}", random.pick(PLACES)),
        4 => format!("the {noun} and the {}", random.pick(NOUNS)),
        _ => format!("the {adjective} {noun} {}", random.pick(PLACES)),
    };
    const SMALL: [&str; 9] = ["of", "the", "and", "a", "an", "in", "on", "at", "to"];
    let words: Vec<String> = title
        .split(' ')
        .enumerate()
        .map(|(i, word)| match i > 0 && SMALL.contains(&word) {
            true => word.to_owned(),
            false => capital(word),
        })
        .collect();
    words.join(" ")
}

/// ISBN-13 with its check digit (ISO 2108).
fn write_isbn(random: &mut Random) -> String {
    let body = 978_000_000_000 + random.next() % 1_000_000_000;
    let digits = body.to_string();
    let sum: u32 = digits
        .bytes()
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| u32::from(digit - b'0') * weight)
        .sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

/// Most are short, some long, as such texts are.
fn write_description(random: &mut Random) -> String {
    let span = MAX_DESCRIPTION - MIN_DESCRIPTION;
    let goal = MIN_DESCRIPTION + random.below(span + 1) * random.below(span + 1) / span;
    let mut text = sentence(random);
    while text.len() < goal.max(MIN_DESCRIPTION) {
        let next = sentence(random);
        if text.len() + 1 + next.len() > MAX_DESCRIPTION {
            break;
        }
        text.push(' ');
        text.push_str(&next);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_thousand_different_books_of_believable_size() {
        let store = shared();
        let ids: Vec<String> = serde_json::from_slice(store.index().plain()).unwrap();
        assert_eq!(ids.len(), BOOKS);
        let mut titles = HashSet::new();
        let mut bytes = 0;
        for id in &ids {
            let text = store.book(id.parse().unwrap()).unwrap().plain();
            bytes += text.len();
            let book: Value = serde_json::from_slice(text).unwrap();
            assert_eq!(book["id"].as_str().unwrap(), id);
            assert!(titles.insert(book["title"].as_str().unwrap().to_owned()));
            let description = book["description"].as_str().unwrap().len();
            assert!((MIN_DESCRIPTION..=MAX_DESCRIPTION).contains(&description));
            let isbn = book["isbn"].as_str().unwrap();
            let sum: u32 = isbn
                .bytes()
                .zip([1, 3].into_iter().cycle())
                .map(|(digit, weight)| u32::from(digit - b'0') * weight)
                .sum();
            assert!(isbn.len() == 13 && sum.is_multiple_of(10), "{isbn}");
        }
        let mean = bytes / BOOKS;
        assert!((1000..2500).contains(&mean), "mean {mean} bytes");
    }

    #[test]
    fn every_build_writes_the_same_books() {
        let store = Bookstore::write();
        let ids: Vec<String> = serde_json::from_slice(store.index().plain()).unwrap();
        let mut sum = flate2::Crc::new();
        sum.update(store.index().plain());
        for id in ids {
            sum.update(store.book(id.parse().unwrap()).unwrap().plain());
        }
        // Other bytes make other measurements: who changes them says so in the changelog.
        assert_eq!(sum.sum(), 0x8cea_54f7);
    }
}
