"""Commands that judge existing conversations: `seatrial regrade`, `import-trace`, `scenario from-trace`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted
from seatrial.runs.report import Report
from seatrial.runs.request import RunRequest
from seatrial.traces.formats import FORMATS, read_trace
from seatrial.traces.scenario_file import notes_on, replay_agent, write_scenarios, write_yaml
from seatrial.traces.transcript_builder import MessagePaths, RecordedConversation, TraceFile

from . import shell_completion
from .options import (
    check_run_name,
    env_file_option,
    judge_model_option,
    make_request,
    read_environment,
    report_option,
    store_option,
    verbose_option,
)
from .output import print_table, show_and_write, write_file

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Judged(Protocol):
    @property
    def report(self) -> Report: ...


_Done = TypeVar("_Done", bound=_Judged)


def judging_options(regrade_command: _Command) -> _Command:
    """The options from --judge-model on."""
    for option in (env_file_option, verbose_option, report_option, store_option, judge_model_option):
        regrade_command = option(regrade_command)
    return regrade_command


def judge_recorded(judge: Callable[[RunRequest], _Done], sources: Sequence[str], options: dict[str, Any]) -> _Done:
    """Judge with the options, then print the run and write its reports."""
    reports = [parse_report_option(text) for text in options["reports"]]
    folder = Path.cwd()
    model = options["judge_model"]
    progress = Progress(sys.stderr)
    request = make_request(
        sources,
        environ=read_environment(options["env_file"]),
        overrides={"models": {"judge": model} if model else None},
        name=check_run_name(options["name"]),
        store=options["store"],
        listeners=(progress,),
    )
    try:
        done = judge(replace(request, sources=tuple(sources)))
    finally:
        progress.close()
    show_and_write(done.report, reports, folder=folder, verbose=options["verbose"], environ=request.environ)
    return done


@click.command("regrade")
@click.argument("run", shell_complete=shell_completion.runs)
@click.argument("paths", nargs=-1)
@click.option("--name", help="Name of the new run. Default: the name of the old run.")
@judging_options
def regrade_command(run: str, paths: tuple[str, ...], **options: Any) -> int:
    """Judge the stored conversations of RUN again, with the current expectations of the files.

    No agent is called. The verdicts become a new run; RUN is unchanged. PATHS are the files with the expectations;
    the default is the files of RUN. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.regrade import regrade

    done = judge_recorded(lambda request: regrade(run, request), paths, options)
    click.echo(f"regraded from run {done.report.run.parent}, which is unchanged")
    if done.unfinished is not None:
        click.echo(done.unfinished, err=True)
    if done.gone:
        click.echo("not judged again, because they are no longer in the files:", err=True)
        print_table(("suite", "scenario"), [(key.suite, key.label) for key in done.gone], indent="  ", err=True)
    return done.report.exit_code


def reading_options(command: _Command) -> _Command:
    """The options that say how trace files are read."""
    for option in (
        click.option(
            "--conversation-name",
            "name_path",
            metavar="PATH",
            help="With --messages: JMESPath of the conversation's name, or of the names of all.",
        ),
        click.option(
            "--messages",
            "messages_path",
            metavar="PATH",
            help="JMESPath of the messages, for JSON of any other form: chats[].messages",
        ),
        click.option(
            "--format", "format_", type=click.Choice(list(FORMATS)), help="Format of the file. Default: detected."
        ),
    ):
        command = option(command)
    return command


def _message_paths(messages: str | None, name: str | None) -> MessagePaths | None:
    if messages is None and name is not None:
        raise UsageError("--conversation-name is used with --messages, which says where the messages are")
    return None if messages is None else MessagePaths(messages=messages, name=name)


@click.command("import-trace")
@click.argument("files", nargs=-1, required=True)
@reading_options
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Suite that judges the recordings. Repeatable.")
@click.option("--name", help="Name of the run. Default: from the files or the suite.")
@judging_options
def import_trace_command(files: tuple[str, ...], suites: tuple[str, ...], **options: Any) -> int:
    """Store the recorded conversations of FILES as a run that can be shown, compared and judged.

    With `--suite`, a conversation is judged by the scenario with its name, or the one whose user says the same.
    Without it nothing is checked, and the run does not pass. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.import_traces import import_traces

    paths = _message_paths(options["messages_path"], options["name_path"])
    traces = [read_trace(file, format=options["format_"], paths=paths) for file in dict.fromkeys(files)]
    for trace in traces:
        for note in trace.notes:
            click.echo(safe_text(f"{trace.path}: {note}"), err=True)
    done = judge_recorded(lambda request: import_traces(traces, request), suites, options)
    if not suites:
        click.echo(
            "nothing was checked, so the run did not pass. To judge the conversations, give --suite PATH", err=True
        )
    _print_rest("recorded, but without a scenario:", ("conversation",), [(name,) for name in done.unmatched])
    missing = [(key.suite, key.label) for key in done.without_recording]
    _print_rest("scenarios without a recording:", ("suite", "scenario"), missing)
    return done.report.exit_code


def _print_rest(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        click.echo(title, err=True)
        print_table(columns, rows, indent="  ", err=True)


@click.group("scenario")
def scenario_command() -> None:
    """Create scenarios from recordings."""


@scenario_command.command("from-trace")
@click.argument("file")
@click.option("--conversation", "chosen", multiple=True, metavar="ID", help="Only this conversation. Repeatable.")
@reading_options
@click.option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
def from_trace(file: str, chosen: tuple[str, ...], output: str | None, **options: Any) -> int:
    """Write recorded conversations as scenarios: user turns, mocks with the recorded results, first expectations.

    The new suite replays the recording and passes. To test your agent with it, set `suite.agent`, or run it with
    `seatrial run --agent`.
    """
    paths = _message_paths(options["messages_path"], options["name_path"])
    trace = read_trace(file, format=options["format_"], paths=paths)
    recordings = _choose(trace, chosen)
    agent = replay_agent(file, format=options["format_"], paths=paths)
    document = write_scenarios(recordings, suite=Path(file).stem, agent=agent)
    notes = [*trace.notes, *notes_on(recordings)]
    comments = [f"# {line}" for note in notes for line in note.splitlines()]
    text = "\n".join([*comments, write_yaml(document)])
    if output in (None, "-"):
        click.echo(text, nl=False)
        return 0
    target = Path(str(output))
    if target.exists():
        raise UsageError(f"{target}: exists already, and may have been edited. Choose another file: -o FILE")
    write_file(target, text)
    click.echo(f"wrote {counted(len(recordings), 'scenario')} to {output}; try: seatrial run {output}", err=True)
    return 0


def _choose(trace: TraceFile, chosen: tuple[str, ...]) -> list[RecordedConversation]:
    unknown = [name for name in chosen if all(each.name != name for each in trace.recordings)]
    if unknown:
        known = [each.name for each in trace.recordings]
        more = f" and {len(known) - 10} more" if len(known) > 10 else ""
        raise UsageError(
            f"{trace.path}: no conversation is called {unknown[0]!r}. There are: {', '.join(known[:10])}{more}"
        )
    return [each for each in trace.recordings if not chosen or each.name in chosen]
