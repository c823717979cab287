"""What downloads of data sets have in common."""

from __future__ import annotations

from urllib.parse import urlsplit


def reason_of(error: Exception, url: str) -> str:
    """Why a download failed, in words for a user.

    >>> reason_of(TimeoutError("HTTPConnectionPool(...): Read timed out"), "https://example.org/data.zip")
    'no connection to example.org'
    """
    if any(word in type(error).__name__ for word in ("Connect", "Timeout")):  # the details are of no use to a user
        return f"no connection to {urlsplit(url).netloc}"
    return str(error).strip().rstrip(".")
