"""How the command line writes what the library calls parameters: `per_user` is `--per-user`.

The command line takes them so, and the studio shows them so.
"""

from searchveil.errors import Setting, Style, as_option

# Where an option is not called as the parameter: several values are given by one option that is repeated, and some
# names say enough only beside what they belong to.
OPTIONS = {
    ("", "columns"): "column",
    ("", "options"): "reader_option",
    ("", "patterns"): "pattern",
    ("", "canaries"): "canary",
    ("", "folder"): "out",
    ("", "from_"): "from",
    ("ledger", "neighbours"): "budget_neighbours",
    ("ledger", "composition"): "budget_composition",
    ("pool", "source"): "queries",
    ("report", "path"): "report",
    ("table", "format"): "table",
    ("wanted", "size"): "wanted_size",
    ("wanted", "recall"): "wanted_recall",
}


def _written(part: Setting) -> str:
    return as_option(OPTIONS.get((part.of, part.name), part.name), part.value)


on_command_line = Style(_written, " ")


def option_of(parameter: str) -> str:
    """The option that gives a method's parameter."""
    return _written(Setting(parameter))
