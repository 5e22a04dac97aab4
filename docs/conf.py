"""The documentation as a site: `make docs` writes it to site/, and everything in it is read from this machine."""

import sys
from pathlib import Path

import searchveil

sys.path.insert(0, str(Path(__file__).parent))

project = "searchveil"
author = "The searchveil maintainers"
copyright = author
version = release = searchveil.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "made_from_code"]
root_doc = "index"

html_theme = "furo"
html_title = f"searchveil {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 6  # links to headings work as they do where the pages are read as files
autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"  # docstrings write code as people do, in single backticks
highlight_language = "text"
