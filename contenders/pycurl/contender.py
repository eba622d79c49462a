# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "hdrhistogram==0.10.8",
#     "pbr==7.1.3",
#     "pycurl==7.49.0",
#     "setuptools==84.2.1",
# ]
#
# [tool.trilane]
# name = "pycurl"
# title = "PycURL"
# library = "pycurl"
# note = "the wheel's own libcurl; chunks and multiplexed drive one CurlMulti on one connection"
# versions = ["h1", "h2", "h2c", "h3"]
# strategies = ["serial", "threads", "processes", "asyncio_threads", "chunks", "multiplexed"]
# ///
"""PycURL: one easy handle, or many of them on the one connection of a multi handle."""

import sys
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import pycurl

from trilane_contender import Answer, Broken, Library, Plan, run
from trilane_contender.curl import broken

ASKED = {
    "h1": pycurl.CURL_HTTP_VERSION_1_1,
    "h2": pycurl.CURL_HTTP_VERSION_2TLS,
    "h2c": pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
    "h3": pycurl.CURL_HTTP_VERSION_3ONLY,
}
SPOKEN = {
    pycurl.CURL_HTTP_VERSION_1_0: "HTTP/1.0",
    pycurl.CURL_HTTP_VERSION_1_1: "h1",
    pycurl.CURL_HTTP_VERSION_2: "h2",
    pycurl.CURL_HTTP_VERSION_3: "h3",
}
# What libcurl would add by itself; a name without a value takes it away.
OWN_HEADERS = ("accept", "content-type", "expect", "user-agent")
WAIT_S = 1.0


class Transfer:
    """An easy handle that is used for one request after the other, and what it received."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._file = plan.body_file
        self._upload: BinaryIO | None = None
        self._discards = plan.discard
        self.size = 0
        self.curl = pycurl.Curl()
        self.body = BytesIO()
        self.problem: Broken | None = None
        self.done = False
        given = {name for name, _ in plan.headers}
        headers = [f"{name}: {value}" for name, value in plan.headers]
        if plan.gzip:
            # libcurl decodes only what it has asked for itself.
            self.curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
            headers = [line for line in headers if not line.startswith("accept-encoding:")]
        headers += [f"{name}:" for name in OWN_HEADERS if name not in given]
        self.curl.setopt(pycurl.HTTPHEADER, headers)
        self.curl.setopt(pycurl.HTTP_VERSION, ASKED[plan.version])
        if plan.cacert is not None:
            self.curl.setopt(pycurl.CAINFO, plan.cacert)
        self.curl.setopt(pycurl.TIMEOUT_MS, round(plan.timeout_s * 1000))
        self.curl.setopt(pycurl.NOSIGNAL, 1)
        self.curl.setopt(pycurl.PROXY, "")
        self.curl.setopt(pycurl.PIPEWAIT, 1)
        if plan.body is not None:
            self.curl.setopt(pycurl.POSTFIELDS, plan.body)
        if plan.body_file is not None:
            self.curl.setopt(pycurl.UPLOAD, 1)
            self.curl.setopt(pycurl.INFILESIZE_LARGE, plan.body_file.stat().st_size)
            self.curl.setopt(pycurl.CUSTOMREQUEST, plan.method)
        elif plan.method == "HEAD":
            self.curl.setopt(pycurl.NOBODY, 1)
        elif plan.method != ("GET" if plan.body is None else "POST"):
            self.curl.setopt(pycurl.CUSTOMREQUEST, plan.method)

    def prepare(self, path: str) -> None:
        """Make the handle ready for another request."""
        self.body = BytesIO()
        self.problem = None
        self.done = False
        self.curl.setopt(pycurl.URL, self._target + path)
        if self._file is not None:
            self.close_file()
            self._upload = self._file.open("rb")
            self.curl.setopt(pycurl.READDATA, self._upload)
        if self._discards:
            self.size = 0
            self.curl.setopt(pycurl.WRITEFUNCTION, self._count)
        else:
            self.curl.setopt(pycurl.WRITEDATA, self.body)

    def close_file(self) -> None:
        """Close the file that was sent last."""
        if self._upload is not None:
            self._upload.close()

    def _count(self, piece: bytes) -> None:
        self.size += len(piece)

    def failed(self, code: int, message: str) -> Broken:
        """Why the transfer failed."""
        return broken(code, message, self.curl.getinfo(pycurl.OS_ERRNO))

    def answer(self) -> Answer:
        """The response, whose version libcurl tells for each transfer."""
        version = self.curl.getinfo(pycurl.INFO_HTTP_VERSION)
        return Answer(
            self.curl.getinfo(pycurl.RESPONSE_CODE),
            SPOKEN.get(version, f"HTTP version {version}"),
            self.body.getvalue(),
            self.size if self._discards else None,
        )


class Client:
    """One easy handle, which keeps its connection."""

    def __init__(self, plan: Plan) -> None:
        self._transfer = Transfer(plan)

    def fetch(self, path: str) -> Answer:
        """`perform`."""
        self._transfer.prepare(path)
        try:
            self._transfer.curl.perform()
        except pycurl.error as error:
            raise self._transfer.failed(*error.args) from error
        return self._transfer.answer()

    def close(self) -> None:
        """Close the handle and its connection."""
        self._transfer.curl.close()
        self._transfer.close_file()


class Streams:
    """A multi handle that may open one connection; easy handles are used again."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._idle: list[Transfer] = []
        self._active: dict[pycurl.Curl, Transfer] = {}
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, 1)
        self._multi.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, max(plan.in_flight, plan.chunk))

    def submit(self, path: str) -> Transfer:
        """Hand an easy handle to the multi handle; `collect` lets it send."""
        transfer = self._idle.pop() if self._idle else Transfer(self._plan)
        transfer.prepare(path)
        self._multi.add_handle(transfer.curl)
        self._active[transfer.curl] = transfer
        return transfer

    def collect(self, handle: Transfer) -> Answer:
        """Drive all transfers until this one is done."""
        while not handle.done:
            _, running = self._multi.perform()
            self._note()
            if handle.done:
                break
            if not running:
                raise Broken("protocol", "libcurl lost a transfer")
            # `select` knows the sockets, but not the timers of libcurl, on which QUIC depends.
            timer_ms = self._multi.timeout()
            wait_s = WAIT_S if timer_ms < 0 else min(timer_ms / 1000, WAIT_S)
            if wait_s > 0:
                self._multi.select(wait_s)
        self._idle.append(handle)
        if handle.problem is not None:
            raise handle.problem
        return handle.answer()

    def close(self) -> None:
        """Close the connection."""
        for curl in self._active:
            self._multi.remove_handle(curl)
        self._multi.close()
        for transfer in (*self._active.values(), *self._idle):
            transfer.curl.close()
            transfer.close_file()

    def _note(self) -> None:
        more = True
        while more:
            queued, good, bad = self._multi.info_read()
            for curl in good:
                self._end(curl)
            for curl, code, message in bad:
                transfer = self._end(curl)
                transfer.problem = transfer.failed(code, message)
            more = queued > 0

    def _end(self, curl: pycurl.Curl) -> Transfer:
        self._multi.remove_handle(curl)
        transfer = self._active.pop(curl)
        transfer.done = True
        return transfer


if __name__ == "__main__":
    sys.exit(
        run(
            Library(
                distribution="pycurl",
                client=Client,
                stream_client=Streams,
                streams_bodies=True,
            )
        )
    )
