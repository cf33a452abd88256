"""The `seatrial` command: its subcommands, loaded when they are called, and its exit codes."""

import errno
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TextIO

import click

from seatrial.errors import SeatrialError, UsageError
from seatrial.version import __version__


def explain_mistake(error: click.UsageError, args: Sequence[str]) -> str:
    """The mistake in one line: where, what, and what would work."""
    command, where = _command(error, args)
    if isinstance(error, click.NoSuchOption):
        what = f"no such option {error.option_name!r}.{_meant(error.option_name, command)}"
    else:
        said = error.format_message().rstrip(".")
        what = f"{said[:1].lower()}{said[1:]}."
    if isinstance(error, click.BadOptionUsage):
        what += _choices(error.option_name, command)
    elif (
        isinstance(error, click.BadParameter) and error.param is not None and isinstance(error.param.type, click.Choice)
    ):
        given = error.message.partition(" is not one of")[0].strip("'")
        close = get_close_matches(given, list(map(str, error.param.type.choices)), n=1)
        what += f" Did you mean {close[0]!r}?" if close else ""
    return f"{where}: {what} See: {where} --help"


def _command(error: click.UsageError, args: Sequence[str]) -> tuple[click.Command, str]:
    """The command of the mistake and its name. Not every error knows it."""
    if error.ctx is not None:
        return error.ctx.command, error.ctx.command_path
    name = args[0] if args else ""
    found = seatrial.get_command(click.Context(seatrial), name)
    return (seatrial, "seatrial") if found is None else (found, f"seatrial {name}")


def _choices(flag: str, command: click.Command) -> str:
    for option in command.params:
        if flag in option.opts and isinstance(option.type, click.Choice):
            return f" Give one of: {', '.join(map(str, option.type.choices))}."
    return ""


def _meant(flag: str, command: click.Command) -> str:
    """A similar option, or else the commands that have this option."""
    flags = list(_flags(command))
    familiar = _FAMILIAR_FLAGS.get(flag)
    close = [familiar] if familiar in flags else get_close_matches(flag, flags, n=1, cutoff=0.75)
    if close:
        return f" Did you mean {close[0]!r}?"
    others = [f"`seatrial {name}`" for name in COMMANDS if flag in _flags_of(name)]
    return f" It is an option of {', '.join(others)}." if others else ""


_FAMILIAR_FLAGS = {
    "--config": "--set",
    "--filter": "--scenario",
    "--jobs": "--concurrency",
    "--model": "--judge-model",
    "--output": "--report",
    "--repeat": "--trials",
    "--workers": "--concurrency",
    "-j": "--concurrency",
    "-k": "--scenario",
    "-n": "--concurrency",
    "-o": "--report",
    "-t": "--tag",
}
"""The names that other tools use for our options."""


def _flags_of(name: str) -> frozenset[str]:
    command = seatrial.get_command(click.Context(seatrial), name)
    return frozenset() if command is None else frozenset(_flags(command))


def _flags(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts)


COMMANDS = {
    "init": ("init", "Write a small example suite and agent that pass."),
    "run": ("run", "Run scenarios against an agent."),
    "validate": ("validate:validate_command", "Check scenario files without calling an agent."),
    "list": ("list_command", "List scenarios, or stored runs (`list runs`)."),
    "show": ("show", "Show a stored run, scenario or trial."),
    "explain": ("explain", "Group the failures of a stored run by cause."),
    "fork": ("fork", "Continue a stored conversation from a turn or a call."),
    "attack": ("attack", "Attack an agent through tool results, and see what succeeds."),
    "compare": ("compare", "Compare two stored runs."),
    "plot": ("plot", "Write a plot of a stored run as SVG."),
    "baseline": ("stored_runs:baseline_command", "Set, show or clear the baseline run."),
    "trend": ("trend", "Find a slow decay of the pass rate over the accepted runs."),
    "plan": ("plan", "Calculate how many trials detect a drop of the pass rate."),
    "regrade": (
        "recordings:regrade_command",
        "Judge stored conversations again, with edited expectations.",
    ),
    "mutate": ("mutate", "Find out which defects the checks of a suite do not notice."),
    "label": ("label", "Choose trials for people to label, and store the labels."),
    "calibrate": ("calibrate", "Compare a judge with human labels."),
    "serve": ("serve", "Serve runs as web pages and as a JSON API."),
    "export": ("stored_runs:export_command", "Write a stored run as JSON Lines."),
    "import": ("stored_runs:import_command", "Import exported runs and merge shards."),
    "import-trace": (
        "recordings:import_trace_command",
        "Import recorded conversations and judge them with a suite.",
    ),
    "scenario": (
        "recordings:scenario_command",
        "Create scenarios from recordings (`scenario from-trace`).",
    ),
    "prune": ("stored_runs:prune_command", "Delete stored runs."),
    "doctor": ("doctor", "Check the installation, settings, keys, store and suites."),
    "mock-server": ("mock_server", "Serve the mocked tools of a scenario as an MCP server."),
    "mcp": ("mcp", "Serve Seatrial to coding agents as an MCP server."),
    "completion": ("shell_completion:completion_command", "Print the shell completion script."),
    "convert": ("convert", "Convert test files of other tools to scenario files."),
    "schema": ("validate:schema_command", "Print the JSON Schema of scenario files."),
}


FAMILIAR = {
    "check": "validate",
    "diff": "compare",
    "eval": "run",
    "new": "init",
    "test": "run",
    "ui": "serve",
    "view": "show",
}
"""The names that other tools use for our commands."""

# From click 8.2 on, `seatrial` without a command raises this error.
_NO_COMMAND: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class _Commands(click.Group):
    """Imports a command's module only when it is needed: `seatrial run` must start quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        module, _, function = found[0].partition(":")
        command: click.Command = getattr(import_module(f"seatrial.cli.{module}"), function or "command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        # Click would import every command for its short help.
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = [FAMILIAR[args[0]]] if args[0] in FAMILIAR else get_close_matches(args[0], COMMANDS, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"no such command {args[0]!r}.{guess} See: seatrial --help")
        return super().resolve_command(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def seatrial() -> None:
    """Test LLM agents: run scenarios, judge the conversations, return a verdict."""


def main(args: Sequence[str] | None = None) -> None:
    """The console script."""
    # Reference counting frees nearly all objects; frequent searches for cycles cost 10 % of large runs.
    gc.set_threshold(50_000, 20, 20)
    sys.stdout = sys.stdout or _null_stream()  # a shell may close them: `>&-`
    sys.stderr = sys.stderr or _null_stream()
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.exit(_exit_code(args))


def _exit_code(args: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if args is None else args)
    try:
        # One name however it was started: error texts show commands to type.
        code = seatrial.main(args=given, prog_name="seatrial", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        show_error(error)
        return 2
    except SeatrialError as error:
        # Not a mistake of the user, such as a full disk: no traceback, and never a pass.
        show_error(error)
        return 1
    except _NO_COMMAND as error:
        error.show()
        return 2
    except click.UsageError as error:
        show_error(UsageError(explain_mistake(error, given)))
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of the output ended, as `head` does.
        _drop_output()
        return 1
    except OSError as error:
        return _exit_code_of(error)
    return code if isinstance(code, int) else 0


def _exit_code_of(error: OSError) -> int:
    """Explain a full disk or too many open files. Raises any other error again."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        # Not with show_error: it imports modules, whose files could not be opened.
        remedy = "Lower --concurrency, or raise the limit: ulimit -n 8192"
        click.echo(f"error: too many files are open ({error.strerror}). {remedy}", err=True)
        return 1
    if error.errno != errno.ENOSPC:
        raise error
    show_error(SeatrialError(f"cannot write all output: {error.strerror}"))
    _drop_output()
    return 1


def _null_stream() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _drop_output() -> None:
    """Discard output that is still buffered: writing it when Python ends would fail with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def show_error(error: SeatrialError) -> None:
    """Print the error on stderr, escaped, since it may quote files and agents."""

    from seatrial.reports.terminal import safe_text

    click.echo(safe_text(f"error: {error}"), err=True)
