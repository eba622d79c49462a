"""An ASGI application that answers as the HTTP interfaces of OpenAI and of Anthropic do.

`POST /v1/chat/completions` and `POST /v1/messages`, as JSON, or as server-sent events where the
request asks for a stream. It says of each request which version of HTTP carried it, and with what
it was authorised, so that an answer cannot come from anywhere else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import application
from .authority import Leaf

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

OPENAI_KEY = "sk-local-openai"
ANTHROPIC_KEY = "sk-local-anthropic"
# More pieces than one, so that a stream is one.
WORDS = ("All ", "of ", "it ", "over ", "HTTP/")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """One request."""
    if scope["type"] != "http":
        return
    asked = json.loads(await _content(receive) or b"{}")
    fields = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
    words = [*WORDS, scope["http_version"]]
    path = scope["path"]
    if scope["method"] == "GET" and path == "/hello":
        await _answer(send, 200, b"hello world")
    elif path == "/v1/chat/completions":
        if fields.get("authorization") != f"Bearer {OPENAI_KEY}":
            await _refuse(send, {"error": {"message": "no such key", "code": "invalid_api_key"}})
        elif asked.get("stream"):
            await _stream(send, _chunks(asked, words))
        else:
            await _json(send, _completion(asked, words))
    elif path == "/v1/messages":
        # Releases from 2.0 on send the key as a bearer token.
        known = fields.get("authorization") == f"Bearer {ANTHROPIC_KEY}"
        if not known or "anthropic-version" not in fields:
            error = {"type": "authentication_error", "message": "no such key"}
            await _refuse(send, {"type": "error", "error": error})
        elif asked.get("stream"):
            await _stream(send, _events(asked, words))
        else:
            await _json(send, _message(asked, words))
    else:
        await _answer(send, 404, b"{}")


def _completion(asked: dict[str, Any], words: list[str]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(words), "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": asked["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": len(words), "total_tokens": 9},
    }


def _chunks(asked: dict[str, Any], words: list[str]) -> Iterator[str]:
    for number, word in enumerate([*words, ""]):
        last = number == len(words)
        delta = {} if last else {"role": "assistant", "content": word}
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if last else None}
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": asked["model"],
            "choices": [choice],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _message(asked: dict[str, Any], words: list[str]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": [{"type": "text", "text": "".join(words)}] if words else [],
        "stop_reason": "end_turn" if words else None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": len(words)},
    }


def _events(asked: dict[str, Any], words: list[str]) -> Iterator[str]:
    begun = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _message(asked, [])},
        begun,
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            }
            for word in words
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": len(words)}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


async def _content(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _json(send: Send, value: dict[str, Any]) -> None:
    await _answer(send, 200, json.dumps(value).encode())


async def _refuse(send: Send, value: dict[str, Any]) -> None:
    await _answer(send, 401, json.dumps(value).encode())


async def _answer(send: Send, status: int, content: bytes) -> None:
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


async def _stream(send: Send, events: Iterator[str]) -> None:
    fields = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    for event in events:
        await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        # Each by itself on the wire: nothing waits for the next one.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def serving(folder: Path, leaf: Leaf) -> Iterator[str]:
    """Run it in `folder`: its base URL, for every version."""
    alpn = ["h2", "http/1.1"]
    with application.serving(__name__, folder, cert=leaf.cert, key=leaf.key, alpn=alpn) as ports:
        yield f"https://localhost:{ports[0]}"
