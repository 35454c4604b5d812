"""How Sphinx builds the documentation: `make docs`."""

project = "icestream"
author = "The icestream maintainers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "icestream"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
