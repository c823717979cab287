"""The one exception that is meant for the user's eyes, and which errors of the system are told like it."""

from __future__ import annotations

import errno
from pathlib import Path

WAYS_OUT = {
    errno.EACCES: "Change its permissions, or those of the folders above it, or name another place.",
    errno.EPERM: "Change its permissions, or name another place.",
    errno.EROFS: "It lies on a disk that can only be read: name another place.",
    errno.ENOSPC: "Make room on that disk, or name another place.",
    errno.EDQUOT: "Make room in your share of that disk, or name another place.",
    errno.ELOOP: "Remove the link, or put the file that it leads to in its place.",
    errno.EFBIG: "Files here may not become that large: raise the limit (ulimit -f), or name another place.",
    errno.EIO: "The disk may be failing: name a place on another one.",
    errno.ENAMETOOLONG: "Name a place with a shorter path.",
    errno.EMFILE: "Allow more open files (ulimit -n), or start fewer processes at a time.",
}


class UserError(Exception):
    """Something the user can mend: the message names the config key, file or value, and the way out.

    Entry points print it without a traceback; anything else that reaches them is a bug.
    """


class RunFailedError(RuntimeError):
    """A run has failed in processes of its own; the message is what the first of them said, run.log has the rest."""


def as_user_error(error: BaseException | None, place: Path | str | None = None) -> UserError | None:
    """A ``UserError`` itself, or one for what the system does not allow: no permission, no room. None for all else.

    Args:
        error: of any kind.
        place: where it was written to, for an error that does not say.

    >>> print(as_user_error(PermissionError(errno.EACCES, "Permission denied", "data/uci")))
    data/uci: permission denied. Change its permissions, or those of the folders above it, or name another place.
    """
    if isinstance(error, UserError):
        return error
    if not isinstance(error, OSError) or error.errno not in WAYS_OUT:
        return None
    name = place if error.filename is None else error.filename
    if name is None:
        return None
    return UserError(f"{name}: {(error.strerror or 'failed').lower()}. {WAYS_OUT[error.errno]}")
