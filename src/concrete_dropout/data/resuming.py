"""A downloader for pooch that goes on where a connection broke off, and that no server can keep waiting for ever."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

CONNECT_SECONDS, SILENT_SECONDS = 10.0, 20.0
SLOW_SECONDS, SLOW_BYTES = 60.0, 60 * 1024  # a stream with less than so many bytes in so long counts as stalled
ATTEMPTS, PAUSE_SECONDS = 4, 1.0  # the pause doubles
MAX_REDIRECTS = 10
CHUNK = 2**16
BUSY = (408, 425, 429)  # with 5xx: what may pass
Progress = Callable[[int, int | None], None]


class DownloadError(ValueError):
    """A download that failed. The message is for users: no passwords of addresses, no name of a proxy."""


class BrokenOffError(DownloadError):
    """A download that may go on where it stopped."""


class NoConnectionError(BrokenOffError):
    """There is no way to the server now: nothing is lost of what has come before, and no use in trying again."""


class ResumingDownloader:
    """Called by pooch with an address and the file to write.

    Args:
        parts: folder for what has come so far; another downloader with the same folder goes on with it.
        max_bytes: of a file; what is longer is refused, so that no server can fill the disk.
        progress: called with the bytes that are there and those that there will be, None where the server does not say.
    """

    def __init__(self, parts: Path, max_bytes: int, progress: Progress | None = None) -> None:
        self.parts, self.max_bytes = parts, max_bytes
        self.progress: Progress = progress or (lambda done, total: None)

    def __call__(self, url: str, output_file: str, pooch: object, check_only: bool = False) -> None:
        """Fetch ``url`` into ``output_file``.

        Raises:
            BrokenOffError: the connection failed several times; what has come stays in ``parts``.
            DownloadError: there is no connection, no such file, or it is something else.
        """
        part = _Part(self.parts, url)
        for attempt in range(ATTEMPTS):
            try:
                self._attempt(url, part)
                break
            except BrokenOffError as error:
                if attempt == ATTEMPTS - 1 or isinstance(error, NoConnectionError):
                    raise
                time.sleep(PAUSE_SECONDS * 2**attempt)
            except DownloadError:
                part.forget()
                raise
        os.replace(part.file, output_file)
        part.forget()

    def _attempt(self, url: str, part: _Part) -> None:
        done = part.size
        asked = {"Range": f"bytes={done}-", "If-Range": part.version} if done and part.version else {}
        with _session() as session, _opened(session, url, {"Accept-Encoding": "identity", **asked}) as response:
            start = _start(response, done, url)
            if start is None:
                part.forget()
                raise BrokenOffError(f"{host_of(url)} could not go on where the download broke off")
            if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/html":
                raise DownloadError(f"{shown(url)} is a web page, perhaps of a login or of an error, and not the file")
            length = response.headers.get("Content-Length", "")
            total = start + int(length) if length.isdecimal() else None
            self._check_size(total or 0, url)
            part.begin(start, response.headers)
            self._receive(response, part, total, url)

    def _receive(self, response: Any, part: _Part, total: int | None, url: str) -> None:
        import urllib3

        window, seen = time.monotonic(), part.size
        done = seen
        try:
            with part.file.open("ab") as file:
                # Not iter_content, which would wait for a whole chunk, be it byte by byte.
                while chunk := response.raw.read1(CHUNK, decode_content=False):
                    file.write(chunk)
                    file.flush()  # so that a kill loses nothing that has come
                    done += len(chunk)
                    self._check_size(done, url)
                    self.progress(done, total)
                    if time.monotonic() - window > SLOW_SECONDS:
                        if done - seen < SLOW_BYTES:
                            raise BrokenOffError(_broken(url, "sends next to nothing", done, total))
                        window, seen = time.monotonic(), done
        except urllib3.exceptions.ReadTimeoutError as error:
            raise BrokenOffError(_broken(url, f"sent nothing for {SILENT_SECONDS:g} s", done, total)) from error
        except (urllib3.exceptions.HTTPError, ConnectionError) as error:
            raise BrokenOffError(_broken(url, "broke off", done, total)) from error
        if total is not None and done < total:
            raise BrokenOffError(_broken(url, "broke off", done, total))

    def _check_size(self, size: int, url: str) -> None:
        if size > self.max_bytes:
            raise DownloadError(f"{shown(url)} is larger than the {self.max_bytes / 1e6:g} MB that it may have")


class _Part:
    """What has come of one address, and which version of the file it is of."""

    def __init__(self, folder: Path, url: str) -> None:
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        self.file, self._version = folder / f"{name}.bytes", folder / f"{name}.version"

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file.is_file() else 0

    @property
    def version(self) -> str:
        """What the server called the file by; empty where it did not, so that nothing can be added to it."""
        return self._version.read_text(encoding="utf-8") if self._version.is_file() else ""

    def begin(self, start: int, headers: Any) -> None:
        if start:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(b"")
        tag = headers.get("ETag", "")
        self._version.write_text(headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag, "utf-8")

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self._version.unlink(missing_ok=True)


def shown(url: str) -> str:
    """An address as messages may have it.

    >>> shown("https://me:secret@example.org/data.zip?token=abc")
    'https://example.org/data.zip'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=host_of(url), query="", fragment="").geturl()


def host_of(url: str) -> str:
    """Name and port of an address.

    >>> host_of("https://me:secret@example.org:8080/data.zip")
    'example.org:8080'
    """
    return urlsplit(url).netloc.rpartition("@")[2]


def _session() -> Any:
    import requests

    session = requests.Session()
    session.auth = lambda request: request  # otherwise passwords of a netrc file would be sent along
    return session


def _opened(session: Any, url: str, headers: dict[str, str]) -> Any:
    """The answer to a GET, its content still to be read, behind redirections to http and https."""
    import requests

    address = url
    for _ in range(MAX_REDIRECTS):
        if urlsplit(address).scheme not in ("http", "https"):
            raise DownloadError(f"{shown(url)} leads to {shown(address)}, which is no http or https address")
        try:
            # Not followed by requests, which would read the whole content of every redirection.
            response = session.get(
                address,
                headers=headers,
                stream=True,
                timeout=(CONNECT_SECONDS, SILENT_SECONDS),
                allow_redirects=False,
            )
        except requests.exceptions.SSLError as error:
            raise DownloadError(f"the certificate of {host_of(address)} is not trusted") from error
        except requests.exceptions.ReadTimeout as error:
            silence = f"{host_of(address)} did not answer within {SILENT_SECONDS:g} s"
            raise BrokenOffError(silence) from error
        except requests.exceptions.ConnectionError as error:  # with ConnectTimeout and ProxyError
            if _was_reset(error):
                raise BrokenOffError(f"{host_of(address)} ended the connection without an answer") from error
            raise NoConnectionError(f"no connection to {host_of(address)}") from error
        except requests.exceptions.RequestException as error:
            raise DownloadError(f"{shown(address)} cannot be asked for ({type(error).__name__})") from error
        if not response.is_redirect:
            return response
        address = urljoin(address, response.headers["Location"])
        response.close()
    raise DownloadError(f"{shown(url)} leads from one address to the next without end")


def _start(response: Any, done: int, url: str) -> int | None:
    """Where the content of an answer begins in the file; None where it cannot be joined to what is there."""
    status = response.status_code
    if status == 200:
        return 0
    if status == 206:
        found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        return done if found and int(found[1]) == done else None
    if status == 416:
        return None
    message = f"{host_of(url)} answered {status} {response.reason or ''} for {shown(url)}".replace("  ", " ")
    raise (BrokenOffError if status >= 500 or status in BUSY else DownloadError)(message)


def _was_reset(error: Exception) -> bool:
    """Whether there was a connection at all."""
    import urllib3

    reason: Any = error.args[0] if error.args else None
    return isinstance(reason, (urllib3.exceptions.ProtocolError, ConnectionResetError))


def _broken(url: str, how: str, done: int, total: int | None) -> str:
    of = f" of {total / 1e6:.1f}" if total is not None else ""
    return f"{host_of(url)} {how} after {done / 1e6:.1f}{of} MB"
