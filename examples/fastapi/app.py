"""A service under FastAPI that asks another service: one AsyncClient for the whole process.

UPSTREAM=http://127.0.0.1:8080 uvicorn app:app --port 8000
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from trilane.client import AsyncClient, AsyncResponse, StatusError, Timeouts, errors

UPSTREAM = os.environ.get("UPSTREAM", "http://127.0.0.1:8080")
log = logging.getLogger("uvicorn.error")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the client when the service starts, and close it when it ends.

    Its connections are kept and shared by all requests. A client for each request would connect,
    and shake hands, each time. `versions` asks for HTTP/2 without TLS; leave it out with https.
    """
    timeout = Timeouts(connect=1.0, read=5.0, total=10.0)
    async with AsyncClient(base_url=UPSTREAM, versions=("h2",), timeout=timeout) as client:
        app.state.client = client
        yield


def opened(request: Request) -> AsyncClient:
    """The client, for the handlers below; tests may override it."""
    client: AsyncClient = request.app.state.client
    return client


Upstream = Annotated[AsyncClient, Depends(opened)]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(errors.Error)
async def upstream_failed(_request: Request, error: errors.Error) -> JSONResponse:
    """404 where the upstream has nothing, 504 where it is slow, 502 where it is gone or wrong."""
    if isinstance(error, StatusError) and error.status == 404:
        return JSONResponse({"detail": "there is no such book"}, 404)
    log.warning("%s", error)  # it names the URL, which is nobody else's business
    status = 504 if isinstance(error, errors.Timeout) else 502
    return JSONResponse({"detail": "the bookstore has failed"}, status)


@app.get("/books/{book}")
async def one(book: int, upstream: Upstream) -> Any:
    """One request in the place of another."""
    response = await upstream.get("/book", params={"id": book})
    return response.raise_for_status().json()


@app.get("/shelf")
async def several(upstream: Upstream) -> list[str]:
    """Five requests at once: over HTTP/2 they share one connection."""
    ids = (await upstream.get("/books")).raise_for_status().json()[:5]
    found = await asyncio.gather(*(upstream.get("/book", params={"id": book}) for book in ids))
    return [response.raise_for_status().json()["title"] for response in found]


async def content(size: str, upstream: Upstream) -> AsyncIterator[AsyncResponse]:
    """A response with its content unread; FastAPI leaves this once its own response has ended.

    So the upstream's stream is given up, and the connection kept, where the caller hangs up.
    """
    # No limit for the whole: it takes as long as the caller does.
    timeout = Timeouts(connect=1.0, read=5.0)
    async with upstream.stream("GET", f"/bytes/{size}", timeout=timeout) as response:
        yield response.raise_for_status()


@app.get("/download/{size}")
async def download(found: Annotated[AsyncResponse, Depends(content)]) -> StreamingResponse:
    """Pass content on as it comes; none of it is kept in memory."""
    return StreamingResponse(found.aiter_bytes(), media_type=found.headers["content-type"])
