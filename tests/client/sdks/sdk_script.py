# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "annotated-types==0.8.0",
#     "anthropic==2.14.0",
#     "anyio==4.16.0",
#     "attrs==26.1.0",
#     "certifi==2026.10.18",
#     "docstring-parser==0.18.0",
#     "h11==0.16.0",
#     "httpcore2==2.16.2",
#     "httpx2==2.16.2",
#     "idna==3.20",
#     "jiter==0.19.0",
#     "openai==3.57.0",
#     "opentelemetry-api==1.45.2",
#     "outcome==1.3.0.post0",
#     "pydantic==2.14.3",
#     "pydantic-core==2.50.4",
#     "sniffio==1.3.1",
#     "sortedcontainers==2.4.0",
#     "trio==0.35.0",
#     "truststore==0.10.5",
#     "typing-extensions==4.16.0",
#     "typing-inspection==0.4.5",
# ]
# ///
"""Ask a server that answers as OpenAI and Anthropic do by their real packages, over our transport.

Arguments: base URL of the server, the version of HTTP to be used. OPENAI_API_KEY and
ANTHROPIC_API_KEY are what the packages themselves read; SSL_CERT_FILE is the server's authority.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anthropic  # type: ignore[import-not-found, unused-ignore]
import httpx2  # type: ignore[import-not-found, unused-ignore]
import openai  # type: ignore[import-not-found, unused-ignore]
import trio  # type: ignore[import-not-found, unused-ignore]

from trilane.client.httpx2 import AsyncTransport, Transport

SPOKEN = {"h1": "1.1", "h2": "2", "h3": "3"}
ASKED: list[dict[str, str]] = [{"role": "user", "content": "Which version of HTTP is this?"}]
MODEL = "local"


def clients(base: str, client: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of OpenAI's client, and of Anthropic's."""
    return (
        {"base_url": f"{base}/v1", "http_client": client, "max_retries": 0},
        {"base_url": base, "http_client": client, "max_retries": 0},
    )


def blocking(base: str, version: str) -> None:
    """Both blocking clients: an answer, a stream, and a refusal."""
    said = f"All of it over HTTP/{SPOKEN[version]}"
    with httpx2.Client(transport=Transport(versions=(version,)), timeout=60.0) as client:
        for_openai, for_anthropic = clients(base, client)
        gpt, claude = openai.OpenAI(**for_openai), anthropic.Anthropic(**for_anthropic)
        answer = gpt.chat.completions.create(model=MODEL, messages=ASKED)
        assert answer.choices[0].message.content == said, answer
        chunks = list(gpt.chat.completions.create(model=MODEL, messages=ASKED, stream=True))
        assert len(chunks) > 3
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said
        message = claude.messages.create(model=MODEL, max_tokens=64, messages=ASKED)
        assert message.content[0].text == said, message
        with claude.messages.stream(model=MODEL, max_tokens=64, messages=ASKED) as stream:
            pieces = list(stream.text_stream)
        assert len(pieces) > 3
        assert "".join(pieces) == said
        for refused, call in (
            (openai, openai.OpenAI(**for_openai, api_key="wrong").chat.completions),
            (anthropic, anthropic.Anthropic(**for_anthropic, api_key="wrong").messages),
        ):
            caught = None
            try:
                call.create(model=MODEL, max_tokens=64, messages=ASKED)
            except refused.AuthenticationError as error:
                caught = error
            assert caught is not None
            assert caught.status_code == 401


async def asynchronous(base: str, version: str) -> None:
    """Both asynchronous clients: an answer, a stream, and a server that is not there."""
    said = f"All of it over HTTP/{SPOKEN[version]}"
    transport = AsyncTransport(versions=(version,))
    async with httpx2.AsyncClient(transport=transport, timeout=60.0) as client:
        for_openai, for_anthropic = clients(base, client)
        gpt, claude = openai.AsyncOpenAI(**for_openai), anthropic.AsyncAnthropic(**for_anthropic)
        answer = await gpt.chat.completions.create(model=MODEL, messages=ASKED)
        assert answer.choices[0].message.content == said, answer
        chunks = [
            chunk.choices[0].delta.content or ""
            async for chunk in await gpt.chat.completions.create(
                model=MODEL, messages=ASKED, stream=True
            )
        ]
        assert len(chunks) > 3
        assert "".join(chunks) == said
        message = await claude.messages.create(model=MODEL, max_tokens=64, messages=ASKED)
        assert message.content[0].text == said, message
        async with claude.messages.stream(model=MODEL, max_tokens=64, messages=ASKED) as stream:
            pieces = [piece async for piece in stream.text_stream]
        assert len(pieces) > 3
        assert "".join(pieces) == said
        caught = None
        try:
            await openai.AsyncOpenAI(
                base_url="http://127.0.0.1:1/v1", http_client=client, max_retries=0
            ).chat.completions.create(model=MODEL, messages=ASKED)
        except openai.APIConnectionError as error:
            caught = error
        assert caught is not None


if __name__ == "__main__":
    place, spoken = sys.argv[1:]
    blocking(place, spoken)
    asyncio.run(asynchronous(place, spoken))
    trio.run(asynchronous, place, spoken)
    print(
        f"openai {openai.__version__}, anthropic {anthropic.__version__},"
        f" httpx2 {httpx2.__version__}: {spoken}"
    )
