"""How help looks: options in named groups, headings that stand out, exit codes at the end."""

import inspect
from collections.abc import Callable
from typing import Any, Final

import click

EXIT_CODES: Final = """\b
Exit codes:
  0    all went well
  1    it failed
  2    wrong usage or configuration
  3    serve: something was cut at shutdown
  130  interrupted (143 by SIGTERM)
"""


class _Formatter(click.HelpFormatter):
    def write_heading(self, heading: str) -> None:
        """Write a heading that stands out on a terminal."""
        super().write_heading(click.style(heading, bold=True))


class _Context(click.Context):
    formatter_class = _Formatter


class Formatted(click.Command):
    """A command whose help stands out, and whose wide options stay readable."""

    context_class = _Context

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["context_settings"] = {
            "max_content_width": 100,
            "help_option_names": ["-h", "--help"],
        }
        super().__init__(*args, **kwargs)

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the epilog flush left, as its own sections are indented already."""
        if self.epilog:
            formatter.write_paragraph()
            formatter.write_text(inspect.cleandoc(self.epilog))


class GroupedOption(click.Option):
    """An option that belongs under a heading.

    Args:
        group: The heading.
        told: Makes what stands for ``{}`` in the help, when that is shown.
    """

    def __init__(
        self,
        *args: Any,
        group: str = "Options",
        told: Callable[[], str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self._told = told

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Show a switch as ``--[no-]name``, which fits where both of its names would not."""
        record = super().get_help_record(ctx)
        if record is not None and self._told is not None:
            return record[0], record[1].format(self._told())
        if record is None or not self.secondary_opts:
            return record
        return f"--[no-]{self.opts[0].removeprefix('--')}", record[1]


class GroupedCommand(Formatted):
    """A command whose help shows its options by group, in the order of definition."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section a group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(param, "group", "Other"), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=34)
