"""Serves the site on this machine alone: the page, its data, and the reports that it links to; nothing else."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from concrete_dropout import runfolder
from concrete_dropout.dashboard import page
from concrete_dropout.errors import UserError

PORT = 8350
HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.1", "localhost")
OWN_FILES = re.compile(r"index\.html|plotly-\w+\.js|data/[\w-]+\.js|wandb/[\w.-]+\.json")
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    # Other sites that are open in the browser may neither embed the page nor load its data.
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@contextmanager
def serving(root: Path, out: Path, port: int = PORT, host: str = HOST) -> Iterator[str]:
    """Serve a site while the context lasts; gives its address.

    Args:
        root: the folder with the runs, whose reports may be looked at.
        out: of the site.
        port: 0 for any that is free.
        host: of this machine's own addresses.

    Raises:
        UserError: another host, or a port that cannot be had.
    """
    if host not in LOOPBACK:
        raise UserError(
            f"--host {host}: runs are shown on this machine only ({' or '.join(LOOPBACK)}). From another machine, "
            f"make a tunnel: ssh -L {port}:localhost:{port} THIS_MACHINE"
        )
    site, runs = out.resolve(), root.resolve()
    base = Path(os.path.commonpath([site, runs]))
    handler = partial(Handler, directory=str(base), site=site, runs=runs)
    try:
        server = ThreadingHTTPServer((HOST, port), handler)
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is taken: choose another" if taken else f"cannot be had ({error}): choose another"
        raise UserError(f"port {port} {why} with --port, or any free one with --port 0") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    inside = "" if site == base else f"{quote(os.fsencode(site.relative_to(base)))}/"
    try:
        yield f"http://{HOST}:{server.server_address[1]}/{inside}{page.INDEX}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(SimpleHTTPRequestHandler):
    """GET and HEAD of the files of a site and of reports; anything else is not found.

    Args:
        site: folder of the site.
        runs: folder with the runs.
    """

    def __init__(self, *args: Any, site: Path, runs: Path, **keywords: Any) -> None:
        self.site, self.runs = site, runs
        super().__init__(*args, **keywords)

    def send_head(self) -> Any:
        """Check who asks for what before anything is opened."""
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if name not in LOOPBACK:  # a name of somebody else's that leads here
            return self._refuse(HTTPStatus.FORBIDDEN)
        if self.path == "/":
            self.send_response(HTTPStatus.FOUND)
            inside = "" if str(self.site) == self.directory else f"{os.path.relpath(self.site, self.directory)}/"
            self.send_header("Location", f"/{quote(os.fsencode(inside))}{page.INDEX}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if not self.is_allowed(Path(self.translate_path(self.path))):
            return self._refuse(HTTPStatus.NOT_FOUND)
        return super().send_head()

    def is_allowed(self, path: Path) -> bool:
        """Whether a file is one of the site, or a report below the runs; links that lead elsewhere are not."""
        try:
            real = path.resolve(strict=True)
        except (OSError, ValueError):
            return False
        if real.is_relative_to(self.site):
            return OWN_FILES.fullmatch(real.relative_to(self.site).as_posix()) is not None and real.is_file()
        return real.is_relative_to(self.runs) and real.name == runfolder.REPORT and real.is_file()

    def end_headers(self) -> None:
        """Add the headers of all answers."""
        for key, value in HEADERS.items():
            self.send_header(key, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No line per request: the terminal is for the builds."""

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_error(status)
