//! Shelves and books in memory, shared by all workers.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use prost::Message;
use tokio::sync::broadcast;
use tonic::Status;

use super::{
    name,
    proto::{Book, WatchBooksResponse, watch_books_response::Change},
};

const SHELVES: u32 = 10;
const BOOKS: u32 = 100;
/// Books beyond those that were there at the start.
const MAX_CREATED: usize = 10_000;
/// Encoded size of all that callers have stored, in bytes.
const MAX_STORED: usize = 64 << 20;
const MAX_LABELS: usize = 100;
/// Characters of a label, and of any other text.
const MAX_TEXT: usize = 1000;
/// Changes that a follower may be behind.
const MAX_BEHIND: usize = 256;
const MAX_FOLLOWERS: usize = 1000;

/// All shelves.
pub(crate) struct Library {
    shelves: Vec<Shelf>,
    created: AtomicUsize,
    stored: AtomicUsize,
}

struct Shelf {
    stock: RwLock<Stock>,
    /// Sent to under the lock of `stock`, so that who listens from a look on misses nothing.
    changes: broadcast::Sender<Arc<WatchBooksResponse>>,
}

struct Stock {
    books: BTreeMap<u32, Arc<Book>>,
    /// The number of the next new book. A number is not given twice: a name that a caller kept
    /// must not come to mean another book.
    next: u32,
}

/// What happens on a shelf from now on.
pub(super) type Changes = broadcast::Receiver<Arc<WatchBooksResponse>>;

impl Library {
    /// The content that the definition prescribes.
    pub(crate) fn new() -> Arc<Self> {
        let shelves = (1..=SHELVES).map(|shelf| Shelf {
            stock: RwLock::new(Stock {
                books: (1..=BOOKS)
                    .map(|book| (book, Arc::new(first(shelf, book))))
                    .collect(),
                next: BOOKS + 1,
            }),
            changes: broadcast::channel(MAX_BEHIND).0,
        });
        Arc::new(Self {
            shelves: shelves.collect(),
            created: AtomicUsize::new(0),
            stored: AtomicUsize::new(0),
        })
    }

    pub(super) fn get(&self, name: &str) -> Result<Arc<Book>, Status> {
        let (shelf, book) = name::book(name)?;
        let found = self
            .find(shelf)
            .and_then(|s| s.read().books.get(&book).cloned());
        found.ok_or_else(|| no_book(name))
    }

    /// Up to `limit` books with numbers above `after` that `keep` likes, and the number of the
    /// last if more follow.
    pub(super) fn list(
        &self,
        parent: &str,
        after: u32,
        limit: usize,
        keep: impl Fn(&Book) -> bool,
    ) -> Result<(Vec<Book>, Option<u32>), Status> {
        let stock = self.shelf(parent)?.read();
        let mut found = stock
            .books
            .range((Bound::Excluded(after), Bound::Unbounded))
            .filter(|(_, book)| keep(book));
        let mut books = Vec::with_capacity(limit);
        let mut last = after;
        for (number, book) in found.by_ref().take(limit) {
            books.push(Book::clone(book));
            last = *number;
        }
        let more = found.next().map(|_| last);
        Ok((books, more))
    }

    pub(super) fn create(&self, parent: &str, mut book: Book) -> Result<Book, Status> {
        let number = name::shelf(parent)?;
        let shelf = self.find(number).ok_or_else(|| no_shelf(parent))?;
        check(&book)?;
        let mut stock = shelf.write();
        book.name = name::of_book(number, stock.next);
        self.store(0, book.encoded_len())?;
        if self.created.fetch_add(1, Relaxed) >= MAX_CREATED {
            self.created.fetch_sub(1, Relaxed);
            self.stored.fetch_sub(book.encoded_len(), Relaxed);
            return Err(Status::resource_exhausted(format!(
                "there are {MAX_CREATED} created books, and no room for more: delete some"
            )));
        }
        let place = stock.next;
        stock.next += 1;
        stock.books.insert(place, Arc::new(book.clone()));
        shelf.tell(Change::Created, &book);
        Ok(book)
    }

    /// Changes a book by a function that may refuse.
    pub(super) fn update(
        &self,
        name: &str,
        change: impl FnOnce(&mut Book) -> Result<(), Status>,
    ) -> Result<Book, Status> {
        let (shelf, number) = name::book(name)?;
        let shelf = self.find(shelf).ok_or_else(|| no_book(name))?;
        let mut stock = shelf.write();
        let stored = stock.books.get_mut(&number).ok_or_else(|| no_book(name))?;
        let mut book = Book::clone(stored);
        change(&mut book)?;
        check(&book)?;
        self.store(stored.encoded_len(), book.encoded_len())?;
        *stored = Arc::new(book.clone());
        shelf.tell(Change::Updated, &book);
        Ok(book)
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), Status> {
        let (shelf, number) = name::book(name)?;
        let shelf = self.find(shelf).ok_or_else(|| no_book(name))?;
        let mut stock = shelf.write();
        let book = stock.books.remove(&number).ok_or_else(|| no_book(name))?;
        if number > BOOKS {
            self.created.fetch_sub(1, Relaxed);
        }
        self.give_back(book.encoded_len());
        shelf.tell(Change::Deleted, &book);
        Ok(())
    }

    /// Up to `limit` books as they are now.
    pub(super) fn look(&self, parent: &str, limit: usize) -> Result<Vec<Arc<Book>>, Status> {
        let stock = self.shelf(parent)?.read();
        Ok(stock.books.values().take(limit).cloned().collect())
    }

    /// All books as they are now, and what changes after that.
    pub(super) fn follow(&self, parent: &str) -> Result<(Vec<Arc<Book>>, Changes), Status> {
        let shelf = self.shelf(parent)?;
        let stock = shelf.read();
        if shelf.changes.receiver_count() >= MAX_FOLLOWERS {
            return Err(Status::resource_exhausted(format!(
                "{parent} has {MAX_FOLLOWERS} followers, and takes no more until one leaves"
            )));
        }
        let changes = shelf.changes.subscribe();
        Ok((stock.books.values().cloned().collect(), changes))
    }

    fn find(&self, shelf: u32) -> Option<&Shelf> {
        self.shelves
            .get(usize::try_from(shelf).ok()?.checked_sub(1)?)
    }

    fn shelf(&self, parent: &str) -> Result<&Shelf, Status> {
        self.find(name::shelf(parent)?)
            .ok_or_else(|| no_shelf(parent))
    }

    /// Accounts for `new` bytes in place of `old` ones.
    fn store(&self, old: usize, new: usize) -> Result<(), Status> {
        let stored = self.stored.fetch_add(new, Relaxed) + new;
        if new > old && stored.saturating_sub(old) > MAX_STORED {
            self.stored.fetch_sub(new, Relaxed);
            return Err(Status::resource_exhausted(format!(
                "the books that callers wrote fill {MAX_STORED} bytes: delete some"
            )));
        }
        self.give_back(old);
        Ok(())
    }

    /// The books at the start were not accounted for, so there may be less to give back.
    fn give_back(&self, bytes: usize) {
        let _ = self.stored.fetch_update(Relaxed, Relaxed, |stored| {
            Some(stored.saturating_sub(bytes))
        });
    }
}

impl Shelf {
    // A panic elsewhere cannot have left a book half written: it is made before it is stored.
    fn read(&self) -> RwLockReadGuard<'_, Stock> {
        self.stock.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Stock> {
        self.stock.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: Change, book: &Book) {
        if self.changes.receiver_count() > 0 {
            // Fails where the last one has just left.
            let _ = self.changes.send(Arc::new(WatchBooksResponse {
                book: Some(book.clone()),
                change: change.into(),
            }));
        }
    }
}

/// Book `book` of shelf `shelf` as it is at the start.
fn first(shelf: u32, book: u32) -> Book {
    Book {
        name: name::of_book(shelf, book),
        author: format!("Author {}", (7 * shelf + book) % 97),
        title: format!("Book {book} of shelf {shelf}"),
        // 200 at most.
        pages: (100 + book) as i32,
        read: book.is_multiple_of(2),
        ..Book::default()
    }
}

/// The bounds of what callers may store.
fn check(book: &Book) -> Result<(), Status> {
    let too_much = |what: &str, count: usize, limit: usize| {
        Status::resource_exhausted(format!("{what} has {count}; the limit is {limit}"))
    };
    let count = book.labels.len();
    if count > MAX_LABELS {
        return Err(too_much("the list of labels", count, MAX_LABELS));
    }
    let publisher = book.edition.as_ref().map(|edition| &edition.publisher);
    let texts = [("the author", &book.author), ("the title", &book.title)]
        .into_iter()
        .chain(publisher.map(|publisher| ("the publisher", publisher)))
        .chain(book.labels.iter().map(|label| ("a label", label)));
    for (what, text) in texts {
        // Counting is only worth it where there could be too many.
        if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
            let what = format!("the number of characters of {what}");
            return Err(too_much(&what, text.chars().count(), MAX_TEXT));
        }
    }
    Ok(())
}

fn no_book(name: &str) -> Status {
    Status::not_found(format!("there is no book {name}"))
}

fn no_shelf(name: &str) -> Status {
    Status::not_found(format!(
        "there is no {name}; there are shelves/1 to shelves/{SHELVES}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_is_the_prescribed_one() {
        let library = Library::new();
        let book = library.get("shelves/3/books/90").unwrap();
        assert_eq!(book.title, "Book 90 of shelf 3");
        assert_eq!(book.author, "Author 14");
        assert_eq!((book.pages, book.read), (190, true));
        assert!(library.get("shelves/10/books/100").is_ok());
        for missing in [
            "shelves/0/books/1",
            "shelves/11/books/1",
            "shelves/1/books/101",
        ] {
            let code = library.get(missing).unwrap_err().code();
            assert_eq!(code, tonic::Code::NotFound, "{missing}");
        }
    }

    #[test]
    fn numbers_are_not_given_twice() {
        let library = Library::new();
        let name = |book: Book| book.name;
        let create = || library.create("shelves/1", Book::default()).unwrap();
        assert_eq!(name(create()), "shelves/1/books/101");
        library.delete("shelves/1/books/101").unwrap();
        assert_eq!(name(create()), "shelves/1/books/102");
    }

    #[test]
    fn created_books_are_bounded_and_deleting_makes_room() {
        let library = Library::new();
        for number in 0..MAX_CREATED {
            let parent = format!("shelves/{}", 1 + number % 10);
            library.create(&parent, Book::default()).unwrap();
        }
        let full = library.create("shelves/1", Book::default()).unwrap_err();
        assert_eq!(full.code(), tonic::Code::ResourceExhausted);
        // One of the first does not count.
        library.delete("shelves/1/books/1").unwrap();
        assert!(library.create("shelves/1", Book::default()).is_err());
        library.delete("shelves/1/books/101").unwrap();
        library.create("shelves/1", Book::default()).unwrap();
    }

    #[test]
    fn stored_bytes_are_bounded_and_given_back() {
        let library = Library::new();
        let big = Book {
            labels: vec!["é".repeat(MAX_TEXT); MAX_LABELS],
            ..Book::default()
        };
        let mut names = Vec::new();
        let full = loop {
            match library.create("shelves/2", big.clone()) {
                Ok(book) => names.push(book.name),
                Err(status) => break status,
            }
        };
        assert_eq!(full.code(), tonic::Code::ResourceExhausted);
        assert!((300..400).contains(&names.len()), "{}", names.len());
        library.delete(&names[0]).unwrap();
        library.create("shelves/2", big).unwrap();
        // Making a book smaller works in a full library.
        library
            .update(&names[1], |book| {
                book.labels.clear();
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn texts_and_labels_are_bounded() {
        let library = Library::new();
        for book in [
            Book {
                title: "x".repeat(MAX_TEXT + 1),
                ..Book::default()
            },
            Book {
                labels: vec![String::new(); MAX_LABELS + 1],
                ..Book::default()
            },
            Book {
                labels: vec!["é".repeat(MAX_TEXT + 1)],
                ..Book::default()
            },
        ] {
            let status = library.create("shelves/1", book).unwrap_err();
            assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        }
    }
}
