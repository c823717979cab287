"""The dashboard: every run, study and sweep below a folder as one static site. Knows files, not torch.

``build_site`` makes it; ``python dashboard.py`` is its command. The page (``web/``) is plain JavaScript over plotly.js;
its data are packed files beside it, which it loads when they are looked at.
"""
