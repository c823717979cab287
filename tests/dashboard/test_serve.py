"""The server: what it gives away, to whom, and what it refuses."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from concrete_dropout.dashboard.build import build_site
from concrete_dropout.dashboard.serve import serving
from concrete_dropout.errors import UserError


@pytest.fixture
def address(outputs: Path) -> Iterator[str]:
    build_site(outputs)
    (outputs / "uci/run_1/checkpoints").mkdir()
    (outputs / "uci/run_1/checkpoints/last.ckpt").write_text("weights")
    (outputs / "secret").write_text("secret")
    (outputs / "uci/run_5/report.html").unlink()
    (outputs / "uci/run_5/report.html").symlink_to(outputs / "secret")
    with serving(outputs, outputs / "dashboard", port=0) as found:
        yield found


def ask(address: str, path: str, method: str = "GET", host: str | None = None) -> http.client.HTTPResponse:
    split = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", split.port, timeout=10)
    connection.request(method, path, headers={"Host": host or split.netloc})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_the_page_its_data_and_reports(address: str, outputs: Path) -> None:
    path = urlsplit(address).path
    data = next((outputs / "dashboard" / "data").glob("run-*.js")).name
    for wanted in (path, f"/dashboard/data/{data}?123", "/uci/run_1/report.html"):
        answer = ask(address, wanted)
        assert answer.status == 200, wanted
        # No other page that is open in the browser may read it.
        assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
        assert answer.getheader("Cache-Control") == "no-cache"
    assert ask(address, path, "HEAD").status == 200
    assert ask(address, "/").getheader("Location") == path
    assert ask(address, path, host=f"localhost:{urlsplit(address).port}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/uci/run_1/checkpoints/last.ckpt",
        "/uci/run_1/config.yaml",
        "/dashboard/cache.json",
        "/dashboard/",
        "/uci/",
        "/secret",
        "/uci/run_5/report.html",  # a link that leads elsewhere
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/dashboard/data/../cache.json",
        "/nothing%00",
    ],
)
def test_nothing_else(address: str, path: str) -> None:
    assert ask(address, path).status == 404


def test_other_names_and_methods_are_refused(address: str) -> None:
    path = urlsplit(address).path
    assert ask(address, path, host="evil.example").status == 403
    assert ask(address, path, host="evil.example:80").status == 403
    assert ask(address, path, "POST").status == 501


def test_other_hosts_and_taken_ports_have_a_message(address: str, outputs: Path) -> None:
    with pytest.raises(UserError, match="shown on this machine only"), serving(outputs, outputs, host="0.0.0.0"):
        pass
    port = urlsplit(address).port or 0
    message = f"port {port} is taken: choose another with --port"
    with pytest.raises(UserError, match=message), serving(outputs, outputs / "dashboard", port=port):
        pass
