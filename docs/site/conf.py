# SPDX-License-Identifier: MIT
# How Sphinx makes the pages of this tree a site. scripts/site copies the pages beside this file and runs it.
import os

project = "FlexGuard"
author = "The FlexGuard authors"
version = release = os.environ["FG_VERSION"]
html_title = f"FlexGuard {version}"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
suppress_warnings = ["ref.myst"]  # links to folders; scripts/lint checks that every link leads to something
myst_heading_anchors = 3

html_theme = "furo"
html_show_copyright = False
html_extra_path = ["extra"]  # the manual pages and the references of C, C++ and Rust
