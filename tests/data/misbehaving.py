"""A server on this machine that misbehaves as it is told, for downloads to cope with."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LIMIT_SECONDS = 10  # that the server itself waits at the most


@dataclass
class Misbehaviour:
    """What the server has, and what goes wrong with the next answers.

    Attributes:
        files: content by path.
        faults: for each path, how answers fail, one after the other; when they are used up, answers are right.
        resumes: whether it answers ranges.
        tag: of all files.
        requests: (path, range) of every request so far.
        headers: of every request so far.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    resumes: bool = True
    tag: str = '"one"'
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    address: str = ""
    released: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        it = self.server.it
        it.requests.append((self.path, self.headers.get("Range")))
        it.headers.append(dict(self.headers))
        faults = it.faults.get(self.path, [])
        fault, _, detail = (faults.pop(0) if faults else "").partition(" ")
        if fault in ("", "cut", "stall", "drip", "unsized"):
            self.send_file(fault, detail)
        elif fault == "status":
            self.send_error(int(detail))
        elif fault == "redirect":
            self.send_response(302)
            self.send_header("Location", detail)
            self.end_headers()
        elif fault == "page":
            self.send_whole(b"<html>Please log in</html>", "text/html; charset=utf-8")
        elif fault == "wrong-range":
            self.send_response(206)
            self.send_header("Content-Range", "bytes 0-3/4")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"oops")
        elif fault == "reset":
            self.reset()
        elif fault == "silence":
            it.released.wait(LIMIT_SECONDS)
        else:
            raise AssertionError(f"unknown fault {fault}")

    def send_file(self, fault: str, detail: str) -> None:
        it = self.server.it
        content = it.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        asked = self.headers.get("Range")
        if asked and it.resumes and self.headers.get("If-Range") == it.tag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if it.tag:
            self.send_header("ETag", it.tag)
        if fault != "unsized":
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if fault in ("cut", "stall"):
            self.wfile.write(content[start : start + int(detail)])
            self.wfile.flush()
            if fault == "stall":
                it.released.wait(LIMIT_SECONDS)
            self.reset()
        elif fault == "drip":
            for byte in content[start : start + 1000 * LIMIT_SECONDS]:
                self.wfile.write(bytes([byte]))  # until the client goes away
                it.released.wait(0.001)
        else:
            self.wfile.write(content[start:])

    def send_whole(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def reset(self) -> None:
        """End the connection as a crashed server does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    it: Misbehaviour

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away, connections are closed on purpose."""

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        if request.fileno() != -1:
            super().shutdown_request(request)


@contextmanager
def misbehaving() -> Iterator[Misbehaviour]:
    """Serve while the context lasts."""
    server = Server(("127.0.0.1", 0), Handler)
    server.it = Misbehaviour()
    server.it.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.it
    finally:
        server.it.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
