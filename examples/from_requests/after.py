"""The same program with Trilane's own client: what differs from `before.py` is said beside it.

python after.py https://localhost:8443
"""

import sys

from trilane.client import Client, Retries, StatusError, Timeouts


def main(shop: str) -> None:
    """Read books, send a form, download, and meet an error."""
    with Client(
        base_url=shop,  # URLs below begin with their paths
        headers={"accept-language": "en"},
        timeout=Timeouts(connect=5, read=30),  # said once, for all requests
        retries=Retries(3, backoff=0.1),
        follow_redirects=True,  # Requests follows them without being told
    ) as client:
        books = client.get("/books")
        print("version:", books.version)  # h2, which Requests counts as 20

        book = client.get("/book", params={"id": books.json()[7]})
        book.raise_for_status()
        print("book:", book.json()["title"])

        form = client.post("/echo", data={"title": "Ulysses", "year": 1922})
        print("form:", form.text)

        # stream=True is a method of its own, and iter_content is iter_bytes.
        with client.stream("GET", "/bytes/100k") as download:
            print("download:", sum(len(piece) for piece in download.iter_bytes(8192)))

        missing = client.get("/nowhere")
        try:
            missing.raise_for_status()
        except StatusError:  # HTTPError
            print("error:", missing.status)  # status_code works, too


if __name__ == "__main__":
    main(sys.argv[1])
