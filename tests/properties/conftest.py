"""The same examples in every run, so that a failure can be repeated; without time limits, which busy machines break."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("project", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("project")
