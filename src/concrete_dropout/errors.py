"""The one exception that is meant for the user's eyes, and which errors of the system are told like it."""

from __future__ import annotations

import errno

WAYS_OUT = {
    errno.EACCES: "Change its permissions, or those of the folders above it, or name another place.",
    errno.EPERM: "Change its permissions, or name another place.",
    errno.EROFS: "It lies on a disk that can only be read: name another place.",
    errno.ENOSPC: "Make room on that disk, or name another place.",
    errno.EDQUOT: "Make room in your share of that disk, or name another place.",
    errno.ELOOP: "Remove the link, or put the file that it leads to in its place.",
}


class UserError(Exception):
    """Something the user can mend: the message names the config key, file or value, and the way out.

    Entry points print it without a traceback; anything else that reaches them is a bug.
    """


class RunFailedError(RuntimeError):
    """A run has failed in processes of its own; the message is what the first of them said, run.log has the rest."""


def as_user_error(error: BaseException | None) -> UserError | None:
    """A ``UserError`` itself, or one for what the system does not allow: no permission, no room. None for all else.

    >>> print(as_user_error(PermissionError(errno.EACCES, "Permission denied", "data/uci")))
    data/uci: permission denied. Change its permissions, or those of the folders above it, or name another place.
    """
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.errno in WAYS_OUT and error.filename is not None:
        return UserError(f"{error.filename}: {(error.strerror or 'failed').lower()}. {WAYS_OUT[error.errno]}")
    return None
