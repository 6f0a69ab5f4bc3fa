"""Sphinx's settings for the manual. Neither the build nor a reader's browser loads anything from the network."""

import os

project = "trimaran"
author = "The maintainers of trimaran"
html_title = "trimaran"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # the anchors that GitHub has
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # an omission (…) is no valid JSON
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "footer_start": [],
    "footer_end": [],
    # Every version reads the list of all versions, so that an old one names those that came later.
    "switcher": {"json_url": "/versions.json", "version_match": os.environ["MANUAL_VERSION"]},
    "check_switcher": False,
    "show_version_warning_banner": False,
}
