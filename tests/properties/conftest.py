"""The same examples in every run, so that a failure can be repeated; without time limits, which busy machines break.

``make test-properties`` takes twenty times as many, and other ones each time.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("project", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=20 * 60, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "project"))
