"""README.md: the card of the data set, for people, with the header that dataset hubs read."""

import json
from importlib.resources import files
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from searchveil.privacy.rounding import at_most
from searchveil.publish.card.description import TO_FILL_IN, Description

SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
LARGEST_SIZE = "n>10M"


def readme(release: Description) -> str:
    environment = Environment(
        autoescape=False,  # Markdown, not HTML, and nothing in it comes from the log
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": _cell, "at_most": at_most}
    template = environment.from_string(files(__package__).joinpath("README.md.jinja").read_text("utf-8"))
    return template.render(
        header=yaml.safe_dump(_header(release), sort_keys=False, allow_unicode=True).strip(),
        release=release,
        plan=release.plan,
        guarantee=release.plan.guarantee,
        to_fill_in=TO_FILL_IN,
    )


def _header(release: Description) -> dict[str, Any]:
    rows = release.files[0].rows
    configurations = [
        {"config_name": file.table, "data_files": file.name} | ({"default": True} if first else {})
        for file, first in zip(release.files, [True] + [False] * len(release.files), strict=False)
    ]
    return {
        "license": "other",
        "pretty_name": release.title,
        "size_categories": [next((size for limit, size in SIZES.items() if rows < limit), LARGEST_SIZE)],
        "configs": configurations,
    }


def _cell(value: Any) -> str:
    """A value inside a Markdown table."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return " ".join(text.split()).replace("|", "\\|")
