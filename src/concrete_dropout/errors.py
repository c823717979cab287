"""The one exception that is meant for the user's eyes."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend: the message names the config key, file or value, and the way out.

    Entry points print it without a traceback; anything else that reaches them is a bug.
    """


class RunFailedError(RuntimeError):
    """A run has failed in processes of its own; the message is what the first of them said, run.log has the rest."""
