"""The command line.

Examples
--------
>>> from typer.testing import CliRunner
>>> from rkhs.cli import app
>>> CliRunner().invoke(app, ["--version"]).output.startswith("rkhs ")
True
"""

import contextlib
import errno
from typing import Annotated

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    help="Kernel machines on millions of rows, behind scikit-learn's interface.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from rkhs import __version__

        typer.echo(f"rkhs {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="And exit.")
    ] = False,
) -> None:
    pass


@contextlib.contextmanager
def _errors_in_one_line():
    """What goes wrong in a command becomes one line on stderr and exit code 1."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise  # the reader of a pipe has left; nobody is there to tell
        from rkhs.cli._text import one_line

        reason = one_line(str(error)) or type(error).__name__
        typer.echo(f"Error: {reason}", err=True)
        raise typer.Exit(1) from None


@app.command()
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rows and features: a few seconds.")
    ] = False,
) -> None:
    """Fit several kernel machines to two tables and compare them, in under a minute."""
    with _errors_in_one_line():
        from rkhs.cli._demo import run_demo

        run_demo(quick)


@app.command()
def info(
    path: Annotated[str, typer.Argument(help="A file written by rkhs.save.", show_default=False)],
) -> None:
    """Say what a saved model file holds."""
    with _errors_in_one_line():
        from rkhs.cli._info import show_info

        show_info(path)


def main() -> None:
    """Run the command line; the entry point of the ``rkhs`` script.

    Examples
    --------
    >>> from rkhs.cli import main
    >>> callable(main)
    True
    """
    app(prog_name="rkhs")
