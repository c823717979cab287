"""Whether W&B is configured: a question that needs neither W&B nor torch."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from urllib.parse import urlsplit

WANDB_SERVER = "https://api.wandb.ai"


def wandb_key_is_configured() -> bool:
    """Whether W&B would find an API key: in the environment, or where `wandb login` leaves it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    file = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    if not file.is_file():
        return False
    try:
        server = urlsplit(os.environ.get("WANDB_BASE_URL") or WANDB_SERVER).hostname or ""
        return netrc.netrc(str(file)).authenticators(server) is not None
    except (netrc.NetrcParseError, OSError):
        return False
