"""What the site reads off the code: the command line from its own help, the Python API from its docstrings."""

import typer.main
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.cli import get_docs_for_click

import searchveil
from searchveil.cli.app import app as command_line


class Commands(SphinxDirective):
    """A section for each command: usage, arguments and options."""

    def run(self) -> list[nodes.Node]:
        command = typer.main.get_command(command_line)
        context = command.context_class(command, info_name="searchveil")
        text = get_docs_for_click(obj=command, ctx=context, name="searchveil", indent=1)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class Nouns(SphinxDirective):
    """A section for each public noun, in the order of the alphabet: classes with their methods, and functions."""

    def run(self) -> list[nodes.Node]:
        parts = []
        for name in sorted(set(searchveil.__all__) - {"__version__"}):
            kind = "autoclass" if isinstance(getattr(searchveil, name), type) else "autofunction"
            members = "\n   :members:" if kind == "autoclass" else ""
            parts.append(f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: searchveil.{name}{members}\n```\n")
        return self.parse_text_to_nodes("\n".join(parts), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("nouns", Nouns)
    return {"parallel_read_safe": True}
