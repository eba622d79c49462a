"""A program with Requests: a session, a retry, a form, JSON, a download, an error.

python before.py https://localhost:8443
"""

import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry


def main(shop: str) -> None:
    """Read books, send a form, download, and meet an error."""
    with requests.Session() as session:
        session.headers["accept-language"] = "en"
        session.mount("https://", HTTPAdapter(max_retries=Retry(3, backoff_factor=0.1)))

        books = session.get(f"{shop}/books", timeout=(5, 30))
        print("version:", books.raw.version)

        book = session.get(f"{shop}/book", params={"id": books.json()[7]}, timeout=(5, 30))
        book.raise_for_status()
        print("book:", book.json()["title"])

        form = session.post(f"{shop}/echo", data={"title": "Ulysses", "year": 1922}, timeout=30)
        print("form:", form.text)

        with session.get(f"{shop}/bytes/100k", stream=True, timeout=30) as download:
            print("download:", sum(len(piece) for piece in download.iter_content(8192)))

        missing = session.get(f"{shop}/nowhere", timeout=30)
        try:
            missing.raise_for_status()
        except requests.HTTPError:
            print("error:", missing.status_code)


if __name__ == "__main__":
    main(sys.argv[1])
