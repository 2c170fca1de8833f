from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from paraudio.cli._main import run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in this process, exit code and error mapping included."""
    import click

    @click.command(
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("args", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def outer(context: click.Context, args: tuple[str, ...]) -> None:
        context.exit(run(args))

    def invoke(*args: str, input: str | bytes | None = None, **environ: str) -> Result:  # noqa: A002 - click's word
        return CliRunner().invoke(outer, args, input=input, env=environ, catch_exceptions=False)

    return invoke
