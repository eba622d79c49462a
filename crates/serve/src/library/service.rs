//! The methods of the library.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, stream};
use prost_types::FieldMask;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use super::{
    name,
    proto::{
        Book, CreateBookRequest, DeleteBookRequest, Edition, GetBookRequest, ImportBooksResponse,
        ListBooksRequest, ListBooksResponse, UpdateBookRequest, WatchBooksRequest,
        WatchBooksResponse, library_server,
    },
    store::Library,
    watch::{Watch, stopping},
};
use crate::worker::Signal;

const MAX_PAGE: usize = 100;
const DEFAULT_PAGE: usize = 20;

type Reply<T> = Result<Response<T>, Status>;
type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service of one worker.
pub(crate) struct Service {
    library: Arc<Library>,
    stop: watch::Receiver<Signal>,
}

impl Service {
    pub(crate) fn new(library: Arc<Library>, stop: watch::Receiver<Signal>) -> Self {
        Self { library, stop }
    }

    fn create(library: &Library, request: CreateBookRequest) -> Result<Book, Status> {
        // The parent first: its error is the one that helps.
        name::shelf(&request.parent)?;
        let book = request
            .book
            .ok_or_else(|| Status::invalid_argument("book is missing: give the book to create"))?;
        library.create(&request.parent, book)
    }
}

#[tonic::async_trait]
impl library_server::Library for Service {
    async fn get_book(&self, request: Request<GetBookRequest>) -> Reply<Book> {
        let book = self.library.get(&request.get_ref().name)?;
        Ok(Response::new(Book::clone(&book)))
    }

    async fn list_books(&self, request: Request<ListBooksRequest>) -> Reply<ListBooksResponse> {
        let request = request.into_inner();
        let limit = match usize::try_from(request.page_size) {
            Ok(0) => DEFAULT_PAGE,
            Ok(size) => size.min(MAX_PAGE),
            Err(_) => {
                return Err(Status::invalid_argument(format!(
                    "page_size is {}: give 0 to {MAX_PAGE}",
                    request.page_size
                )));
            }
        };
        let shelf = name::shelf(&request.parent)?;
        let after = token::read(shelf, &request.page_token)?;
        let filter = request.filter.unwrap_or_default();
        let (books, more) = self.library.list(&request.parent, after, limit, |book| {
            (filter.authors.is_empty() || filter.authors.contains(&book.author))
                && filter.read.is_none_or(|read| read == book.read)
                && book.pages >= filter.min_pages
        })?;
        Ok(Response::new(ListBooksResponse {
            books,
            next_page_token: more.map_or_else(String::new, |last| token::write(shelf, last)),
        }))
    }

    async fn create_book(&self, request: Request<CreateBookRequest>) -> Reply<Book> {
        Self::create(&self.library, request.into_inner()).map(Response::new)
    }

    async fn update_book(&self, request: Request<UpdateBookRequest>) -> Reply<Book> {
        let request = request.into_inner();
        let new = request
            .book
            .ok_or_else(|| Status::invalid_argument("book is missing: give the book to change"))?;
        let mask = request.update_mask.unwrap_or_default();
        let name = new.name.clone();
        self.library
            .update(&name, |book| change(book, new, &mask))
            .map(Response::new)
    }

    async fn delete_book(&self, request: Request<DeleteBookRequest>) -> Reply<()> {
        self.library.delete(&request.get_ref().name)?;
        Ok(Response::new(()))
    }

    type WatchBooksStream = Messages<WatchBooksResponse>;

    async fn watch_books(
        &self,
        request: Request<WatchBooksRequest>,
    ) -> Reply<Self::WatchBooksStream> {
        let (library, stop) = (self.library.clone(), self.stop.clone());
        let watch = Watch::new(library, request.into_inner(), stop)?;
        Ok(Response::new(Box::pin(stream::try_unfold(
            watch,
            Watch::next,
        ))))
    }

    async fn import_books(
        &self,
        request: Request<Streaming<CreateBookRequest>>,
    ) -> Reply<ImportBooksResponse> {
        let mut requests = request.into_inner();
        let mut created = 0;
        while let Some(request) = requests.message().await? {
            Self::create(&self.library, request)?;
            // The library's bound is far below.
            created += 1;
        }
        Ok(Response::new(ImportBooksResponse { created }))
    }

    type LookUpBooksStream = Messages<Book>;

    async fn look_up_books(
        &self,
        request: Request<Streaming<GetBookRequest>>,
    ) -> Reply<Self::LookUpBooksStream> {
        let state = (
            request.into_inner(),
            self.library.clone(),
            self.stop.clone(),
        );
        let books = stream::try_unfold(state, |(mut requests, library, mut stop)| async move {
            let request = tokio::select! {
                biased;
                request = requests.message() => request?,
                stopping = stopping(&mut stop) => return Err(stopping),
            };
            let Some(request) = request else {
                return Ok(None);
            };
            let book = Book::clone(&*library.get(&request.name)?);
            Ok(Some((book, (requests, library, stop))))
        });
        Ok(Response::new(Box::pin(books)))
    }
}

/// Applies a field mask (google/protobuf/field_mask.proto); an empty one names all fields.
fn change(book: &mut Book, new: Book, mask: &FieldMask) -> Result<(), Status> {
    let all = mask.paths.is_empty() || mask.paths.iter().any(|path| path == "*");
    if all {
        *book = new;
        return Ok(());
    }
    let edition = new.edition.clone().unwrap_or_default();
    for path in &mask.paths {
        let old = |book: &mut Book| -> Edition { book.edition.take().unwrap_or_default() };
        match path.as_str() {
            // It names the book, so it cannot differ.
            "name" => {}
            "author" => book.author.clone_from(&new.author),
            "title" => book.title.clone_from(&new.title),
            "pages" => book.pages = new.pages,
            "read" => book.read = new.read,
            "labels" => book.labels.clone_from(&new.labels),
            "edition" => book.edition.clone_from(&new.edition),
            "edition.publisher" => {
                let publisher = edition.publisher.clone();
                book.edition = Some(Edition {
                    publisher,
                    ..old(book)
                });
            }
            "edition.year" => {
                let year = edition.year;
                book.edition = Some(Edition { year, ..old(book) });
            }
            "edition.format" => {
                let format = edition.format;
                book.edition = Some(Edition {
                    format,
                    ..old(book)
                });
            }
            other => {
                let shown: String = other.chars().take(100).collect();
                return Err(Status::invalid_argument(format!(
                    "update_mask names {shown:?}, which is no field of a book"
                )));
            }
        }
    }
    Ok(())
}

/// Page tokens: the shelf and the last book's number, in hexadecimal.
mod token {
    use tonic::Status;

    pub(super) fn write(shelf: u32, last: u32) -> String {
        format!("{shelf:08x}{last:08x}")
    }

    /// The number after which the page begins.
    pub(super) fn read(shelf: u32, token: &str) -> Result<u32, Status> {
        if token.is_empty() {
            return Ok(0);
        }
        let parse = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let last = token
            .split_at_checked(8)
            .filter(|(of, last)| last.len() == 8 && parse(of) == Some(shelf))
            .and_then(|(_, last)| parse(last))
            // Also rejects signs and capitals, which parsing takes.
            .filter(|last| write(shelf, *last) == token);
        last.ok_or_else(|| {
            Status::invalid_argument(
                "page_token is not one that ListBooks of this shelf gave: begin without",
            )
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn tokens_of_others_are_refused() {
            assert_eq!(read(3, &write(3, 77)).unwrap(), 77);
            assert_eq!(read(3, "").unwrap(), 0);
            for bad in [
                "x",
                "0000000300000",
                "+000000300000001",
                "000000030000000G",
                "éééééééé",
                &write(4, 1),
            ] {
                assert!(read(3, bad).is_err(), "{bad}");
            }
        }
    }
}
