"""What every interface of the client does over every version of HTTP.

One row is one behaviour: what the server does, and what the caller must see. `test_behaviours.py`
plays each row once for every version (`h1`, `h2`, `h3`) and every interface (`Client`,
`AsyncClient` and `http.client`'s shape), and then sends one more request, which is answered by the
same connection unless the row says that it `ends`. `left_out` says which cells there cannot be.
"""

from __future__ import annotations

from gzip import compress

from trilane.client.errors import (
    ConnectionClosed,
    IncompleteBody,
    ReadTimeout,
    RemoteProtocolError,
    StreamReset,
)

from . import plays
from .answers import (
    answered,
    breaks_rules,
    closes,
    content,
    cuts,
    echoes,
    end,
    goes_away,
    head,
    informational,
    is_silent,
    refuses,
    takes_content,
    waits,
    went_away,
)
from .behaviour import Behaviour, fails, gets
from .faces import Asks

HELLO = content(b"hello")
NO_STREAMS = {"h1": "HTTP/1.1 has no streams"}
ONE_AT_A_TIME = {"h1 http.client": "one connection of HTTP/1.1 has one response at a time"}

REQUESTS = [
    Behaviour(
        "a request arrives as it was asked",
        server="answers",
        caller="the server got the method, the path with its query, each field and the host",
        answers=[answered()],
        sees=plays.as_it_was_asked,
        asks=Asks("PATCH", "/a?b=c%20d&e", fields=(("X-One", "1"), ("x-latin", "caf\xe9"))),
    ),
    Behaviour(
        "content of a known length",
        server="sends the content back",
        caller="bytes, a buffer, a file or text: the server got all of it, and its length before",
        answers=[[echoes]],
        sees=plays.whole_content,
        asks=Asks("POST"),
    ),
    Behaviour(
        "content in blocks",
        server="sends the content back",
        caller="an iterable, an asynchronous one too: the server got all of it, and no length",
        answers=[[echoes]],
        sees=plays.content_in_blocks,
        asks=Asks("POST"),
    ),
    Behaviour(
        "trailers of a request",
        server="answers when all of the request has come",
        caller="the server got the trailers after the content",
        answers=[[takes_content, *answered()]],
        sees=plays.trailers_of_the_request,
        asks=Asks("POST", content=b"hello", trailers=(("x-sum", "1"),)),
    ),
    Behaviour(
        "content waits for consent",
        server="says 100 (Continue) to the head, and sends the content back",
        caller="the 100 among the informational responses, then the response",
        answers=[[informational(100), echoes]],
        sees=gets(b"hello", informational=[(100, {})]),
        asks=Asks("POST", content=b"hello", expects=True),
    ),
    Behaviour(
        "a refusal instead of consent",
        server="answers 417 to the head",
        caller="the refusal; nothing of the content was sent",
        answers=[[head(417, length=0), end()], answered()],
        sees=plays.nothing_was_sent_of_it,
        asks=Asks("POST", content=b"hello", expects=True),
        ends=("h1",),
    ),
    Behaviour(
        "what would split a request",
        server="answers",
        caller="a ValueError for a line end, a NUL or a blank in a field; nothing is sent",
        answers=[answered()],
        sees=plays.refused_before_it_is_sent,
    ),
    Behaviour(
        "content that fails",
        server="sends the content back",
        caller="the exception that the content raised",
        answers=[[echoes]],
        sees=plays.its_own_error,
        asks=Asks("POST"),
        ends=("h1",),
    ),
    Behaviour(
        "content of another length than announced",
        server="sends the content back",
        caller="an InvalidRequest that says how much is missing, or too much",
        answers=[[echoes]],
        sees=plays.too_little_or_too_much,
        asks=Asks("POST"),
        ends=("h1",),
    ),
    Behaviour(
        "an answer before the content was sent",
        server="answers 413 to the head",
        caller="the answer, though the content has no end",
        answers=[[head(413, length=2), content(b"no"), end()]],
        sees=plays.before_its_content_was_sent,
        asks=Asks("POST"),
        ends=("h1",),
    ),
]

RESPONSES = [
    Behaviour(
        "a response",
        server="answers with a field and eleven bytes, whose length it announces",
        caller="status, fields and content; the reason in HTTP/1.1 alone",
        answers=[[head(200, ("X-One", "1"), length=11), content(b"hello world"), end()]],
        sees=gets(
            fields={"x-one": "1", "content-length": "11"},
            reason={"h1": "Fine", "h2": "", "h3": ""},
            trailers={},
            informational=[],
        ),
    ),
    Behaviour(
        "one connection",
        server="answers one request after the other",
        caller="all requests go by one connection, with ids that count up",
        answers=[answered()],
        sees=plays.one_connection,
    ),
    Behaviour(
        "content of unknown length",
        server="announces no length, and sends content in two parts",
        caller="all of it",
        answers=[[head(), content(b"hello "), content(b"world"), end()]],
        sees=gets(fields={"content-length": None}),
    ),
    Behaviour(
        "trailers of a response",
        server="ends with two trailers of one name",
        caller="content and trailers",
        answers=[[head(), content(b"hello"), end(("X-Sum", "1"), ("X-Sum", "2"))]],
        sees=gets(b"hello", trailers={"x-sum": "1, 2"}),
    ),
    Behaviour(
        "hints before a response",
        server="sends 103 (Early Hints) twice, and answers",
        caller="both among the informational responses, then the response",
        answers=[[informational(103, ("link", "</a>")), informational(103), *answered()]],
        sees=gets(informational=[(103, {"link": "</a>"}), (103, {})]),
    ),
    Behaviour(
        "a response to HEAD",
        server="announces eleven bytes, and sends none",
        caller="the length, and no content",
        answers=[[head(length=11), end()], answered()],
        sees=gets(b"", fields={"content-length": "11"}),
        asks=Asks("HEAD"),
    ),
    Behaviour(
        "no content",
        server="answers 204",
        caller="no content",
        answers=[[head(204), end()]],
        sees=gets(b"", 204),
    ),
    Behaviour(
        "not modified",
        server="answers 304 with the length of what was not modified",
        caller="the length, and no content",
        answers=[[head(304, length=11), end()]],
        sees=gets(b"", 304, fields={"content-length": "11"}),
    ),
    Behaviour(
        "a status of failure",
        server="answers 503 with content",
        caller="a response like any other",
        answers=[answered(status=503)],
        sees=gets(status=503),
    ),
    Behaviour(
        "coded content",
        server="sends content in gzip, and says so",
        caller="the content, decoded",
        answers=[[head(200, ("content-encoding", "gzip")), content(compress(b"hello")), end()]],
        sees=gets(b"hello"),
        left_out={"http.client": "it decodes nothing, as http.client does not"},
    ),
    Behaviour(
        "content is read as it comes",
        server="sends a part, and the rest only when the caller has read that",
        caller="as many bytes as it reads, in the order in which they were sent",
        answers=[[head(length=11), content(b"hello "), waits, content(b"world"), end()]],
        sees=plays.as_it_comes,
    ),
    Behaviour(
        "a response that is left in the middle",
        server="sends a part, and nothing more",
        caller="the next request is answered",
        answers=[[head(), content(b"hello"), is_silent], answered()],
        sees=plays.the_rest_is_not_missed,
        ends=("h1",),
    ),
    Behaviour(
        "a client that is closed",
        server="sends a part, and nothing more",
        caller="whoever reads on has a ConnectionError",
        answers=[[head(), content(b"hello"), is_silent]],
        sees=plays.closed_here,
        is_last=True,
    ),
]

AT_ONCE = [
    Behaviour(
        "large content, both ways",
        server="serves 3 MiB, and sends 3 MiB back",
        caller="each byte, in its place",
        answers=[],
        sees=plays.large_content,
    ),
    Behaviour(
        "an echo longer than every window",
        server="sends the content back while it comes",
        caller="all of it, though nobody reads before all has been written",
        answers=[],
        sees=plays.an_echo_of_any_length,
    ),
    Behaviour(
        "a slow reader",
        server="sends 3 MiB that nobody reads, and answers others",
        caller="the others are answered, and the 3 MiB come when they are read",
        answers=[],
        sees=plays.others_do_not_wait,
        left_out=ONE_AT_A_TIME,
    ),
    Behaviour(
        "fifty at once",
        server="answers fifty requests with content of different lengths",
        caller="each has its own",
        answers=[],
        sees=plays.each_its_own,
    ),
    Behaviour(
        "one stream among others is reset",
        server="resets one of two streams",
        caller="a StreamReset for the one; the other is answered, by the same connection",
        answers=[[head(), content(b"hello "), waits, content(b"world"), end()]],
        sees=plays.the_others_go_on,
        left_out=NO_STREAMS,
    ),
    Behaviour(
        "one response among others is left",
        server="sends a part of two responses, and the rest of one that is waited for",
        caller="the other is read to its end, by the same connection",
        answers=[[head(), content(b"hello "), waits, content(b"world"), end()]],
        sees=plays.the_other_is_read,
        left_out=NO_STREAMS,
    ),
]

TROUBLE = [
    Behaviour(
        "a response that is cut short",
        server="announces eleven bytes, sends five, and gives up",
        caller="an IncompleteBody with what came, or a StreamReset",
        answers=[[head(length=11), HELLO, cuts], answered()],
        sees=fails(
            {"h1": IncompleteBody, "h2": StreamReset, "h3": StreamReset},
            partial={"h1": b"hello", "h2": None, "h3": None},
            retryable=False,
        ),
        ends=("h1",),
    ),
    Behaviour(
        "no response",
        server="gives up before it answers",
        caller="a ConnectionClosed or a StreamReset, and the code that the server gave",
        answers=[[cuts], answered()],
        sees=fails(
            {"h1": ConnectionClosed, "h2": StreamReset, "h3": StreamReset},
            error_code={"h1": None, "h2": 2, "h3": 0x102},
            retryable=False,
        ),
        ends=("h1",),
    ),
    Behaviour(
        "less content than announced",
        server="announces twelve bytes, and ends after five",
        caller="an IncompleteBody",
        answers=[[head(length=12), HELLO, end()], answered()],
        sees=fails(IncompleteBody),
        left_out={"h1": "there the length says where content ends: see what is cut short"},
    ),
    Behaviour(
        "broken rules",
        server="sends what its version does not allow (tests/conformance has each rule)",
        caller="a RemoteProtocolError",
        answers=[[breaks_rules], answered()],
        sees=fails(RemoteProtocolError, retryable=False),
        ends=("h1", "h2", "h3"),
    ),
    Behaviour(
        "silence in the content",
        server="announces eleven bytes, sends five, and says nothing more",
        caller="a ReadTimeout",
        answers=[[head(length=11), HELLO, is_silent], answered()],
        sees=fails(ReadTimeout),
        asks=Asks(read_s=0.1),
        ends=("h1",),
        doubted=("h2", "h3"),
    ),
    Behaviour(
        "silence",
        server="takes the request, and says nothing",
        caller="a ReadTimeout",
        answers=[[is_silent], answered()],
        sees=fails(ReadTimeout),
        asks=Asks(read_s=0.1),
        ends=("h1",),
        doubted=("h2", "h3"),
    ),
    Behaviour(
        "a refused stream",
        server="refuses the request, and answers when it comes again",
        caller="the answer: what was refused was not processed, and is sent again, a POST too",
        answers=[[refuses], answered()],
        sees=gets(),
        asks=Asks("POST", content=b"x"),
        left_out=NO_STREAMS,
    ),
    Behaviour(
        "the end is announced",
        server="answers, and says that it takes no more by this connection",
        caller="the answer",
        answers=[[head(), content(b"hello world"), goes_away, end()], answered()],
        sees=gets(),
        ends=("h2", "h3"),
        left_out={"h1": "there it is a field: see the next row"},
    ),
    Behaviour(
        "connection: close",
        server="answers, and says that it takes no more by this connection",
        caller="the answer",
        answers=[
            [head(200, ("connection", "close"), length=11), content(b"hello world"), end()],
            answered(),
        ],
        sees=gets(),
        ends=("h1",),
        left_out={"h2": "the field is not allowed", "h3": "the field is not allowed"},
    ),
    Behaviour(
        "the end was announced",
        server="says that it took no more by this connection when the request came",
        caller="the answer, by a new connection: it was not processed, and is sent again",
        answers=[[went_away], answered()],
        sees=gets(),
        asks=Asks("POST", content=b"x"),
        left_out={"h1": "a connection that closes says nothing of what was processed"},
    ),
    Behaviour(
        "a kept connection that was closed",
        server="closes each connection after its response",
        caller="the next request goes by a new connection, a POST too",
        answers=[[takes_content, *answered(), closes]],
        sees=plays.by_a_new_connection,
        asks=Asks("POST", content=b"x"),
        ends=("h1", "h2", "h3"),
    ),
    Behaviour(
        "a kept connection that closes under a GET",
        server="answers the first request of a connection, and closes at the second",
        caller="the answer, by a new connection: a GET may be sent again",
        answers=[answered(), [closes], answered()],
        sees=plays.once_more,
        left_out={"h2": "see no response", "h3": "see no response"},
    ),
    Behaviour(
        "a kept connection that closes under a POST",
        server="answers the first request of a connection, and closes at the second",
        caller="a ConnectionClosed that may be retried, by whoever knows that it does no harm",
        answers=[answered(), [closes], answered()],
        sees=plays.a_likely_loss,
        asks=Asks("POST", content=b"x"),
        ends=("h1",),
        left_out={"h2": "see no response", "h3": "see no response"},
    ),
]

TABLE = [*REQUESTS, *RESPONSES, *AT_ONCE, *TROUBLE]
