"""The report of a mutation: on the terminal, as Markdown, JSON and a page. All agent text is escaped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, TextIO

from seatrial.errors import UsageError
from seatrial.model.conversation import Transcript
from seatrial.model.mutation import CheckCounts, MutantCounts, MutationResult, Suggestion, SurvivedMutant
from seatrial.model.run import Status
from seatrial.traces.scenario_file import write_yaml

from .conversation import describe_call
from .json_report import to_json
from .markdown import escaped, quoted
from .registry import write_to
from .terminal import TerminalWriter, json_text, one_line, shorten
from .texts import counted, percent

SCHEMA_VERSION = 1
_SURVIVORS_SHOWN = 10
_CHECKS_SHOWN = 10
_ON_PAGE = 200
"""Survivors with their conversations on the page."""
_TEXT_LIMIT = 300


def mutation_line(result: MutationResult) -> str:
    """`18 of 60 mutants caught (30.0 %), interval 0.20 to 0.43`."""
    total = result.total
    if not total.counted:
        return "no mutant was judged"
    return f"{total.caught:,} of {counted(total.counted, 'mutant')} caught {_score(total)}"


def _score(counts: MutantCounts) -> str:
    if counts.score is None or counts.interval is None:
        return ""
    return f"({percent(counts.score)}) [{counts.interval.low:.2f}, {counts.interval.high:.2f}]"


def _apart(counts: MutantCounts) -> str:
    parts = ((counts.equivalent, "equivalent"), (counts.not_judged, "not judged"))
    return "".join(f", {count:,} {word}" for count, word in parts if count)


def print_mutation(result: MutationResult, stream: TextIO, *, verbose: bool = False) -> None:
    """Write what was caught, what survived, and the lines to add."""
    writer = TerminalWriter(stream)
    for one in result.operators:
        if one.counted or one.equivalent or one.not_judged:
            mark = Status.PASSED if not one.survived else Status.FAILED
            writer.line(f"{one.name:<18} {one.caught}/{one.counted} {_score(one)}{_apart(one)}", mark=mark)
    _print_scenarios(result, writer, verbose=verbose)
    shown = result.survivors if verbose else _one_of_each(result.survivors)[:_SURVIVORS_SHOWN]
    if shown:
        writer.line("No check noticed that the agent", style="bold")
    for survivor in shown:
        where = f"{one_line(survivor.key.label)}, trial-{survivor.trial + 1}"
        writer.line(f"{shorten(one_line(survivor.what), _TEXT_LIMIT)}  ({where})", indent=2)
    if result.total.survived > len(shown):
        writer.line(f"… {result.total.survived - len(shown):,} more", indent=2, style="dim")
    _print_idle(result.idle_checks, writer)
    _print_suggestions(result, writer)
    for note in result.notes:
        writer.line(f"note: {note}")
    writer.line(f"{mutation_line(result)}{_apart(result.total)}, run {result.run}", style="bold")


def _print_scenarios(result: MutationResult, writer: TerminalWriter, *, verbose: bool) -> None:
    ordered = sorted((one for one in result.scenarios if one.counted), key=lambda one: one.score or 0.0)
    if ordered:
        writer.line("By scenario, blindest first:", style="bold")
    for one in ordered if verbose else ordered[:_CHECKS_SHOWN]:
        writer.line(f"{one_line(one.name)}  {one.caught}/{one.counted} {_score(one)}{_apart(one)}", indent=2)


def _print_idle(idle: Sequence[CheckCounts], writer: TerminalWriter) -> None:
    if idle:
        writer.line("Checks that caught nothing:", style="bold")
    for check in idle[:_CHECKS_SHOWN]:
        writer.line(_check_text(check), indent=2)
    if len(idle) > _CHECKS_SHOWN:
        writer.line(f"… {len(idle) - _CHECKS_SHOWN:,} more", indent=2, style="dim")


def _check_text(check: CheckCounts) -> str:
    return one_line(f"{check.scenario}: {check.check}" if check.scenario else check.check)


def _print_suggestions(result: MutationResult, writer: TerminalWriter) -> None:
    if not result.suggestions:
        return
    writer.line(
        f"These lines would catch {counted(_covered(result), 'survivor')} and pass all originals:", style="bold"
    )
    for line in suggestions_yaml(result.suggestions).splitlines():
        writer.line(line, indent=2)


def _covered(result: MutationResult) -> int:
    return len({caught for one in result.suggestions for caught in one.catches})


def _one_of_each(survivors: Sequence[SurvivedMutant]) -> list[SurvivedMutant]:
    """The first survivor of each operator."""
    first: dict[str, SurvivedMutant] = {}
    for one in survivors:
        first.setdefault(one.operator, one)
    return list(first.values())


def suggestions_document(suggestions: Sequence[Suggestion]) -> dict[str, Any]:
    """The suggestions as the content of a file that a suite can include."""
    rules = [one.line.value for one in suggestions if one.line.scenario is None]
    scenarios: dict[str, dict[str, Any]] = {}
    for one in suggestions:
        if one.line.scenario is None:
            continue
        made = scenarios.setdefault(one.line.scenario, {"name": one.line.scenario})
        if one.line.key == "invariants":
            made.setdefault("invariants", []).append(one.line.value)
        elif one.line.key == "end_state":
            made["end_state"] = one.line.value
        else:
            made.setdefault("expect", {}).setdefault(one.line.key, []).append(one.line.value)
    document: dict[str, Any] = {"suite": {"invariants": rules}} if rules else {}
    return document | ({"scenarios": list(scenarios.values())} if scenarios else {})


def suggestions_yaml(suggestions: Sequence[Suggestion]) -> str:
    return write_yaml(to_json(suggestions_document(suggestions)))


def mutation_json(result: MutationResult) -> dict[str, Any]:
    """Everything that the terminal shows, without the conversations of survivors."""
    fields = to_json(result)
    survivors = [
        {"scenario": to_json(one.key), "trial": f"trial-{one.trial + 1}", "operator": one.operator, "what": one.what}
        for one in result.survivors
    ]
    counts = {
        name: [{**to_json(one), "score": to_json(one.score)} for one in getattr(result, name)]
        for name in ("operators", "scenarios")
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "score": to_json(result.score),
        **fields,
        **counts,
        "total": {**fields["total"], "score": to_json(result.score)},
        "survivors": survivors,
        "suggested_yaml": suggestions_yaml(result.suggestions) if result.suggestions else "",
    }


def write_mutation_markdown(result: MutationResult, stream: TextIO) -> None:
    stream.write(f"## {escaped(mutation_line(result))}\n\n")
    stream.write(f"Mutants of run {escaped(result.run)}{escaped(_apart(result.total))}.\n\n")
    stream.write("| Operator | Caught | Score |\n|---|---|---|\n")
    for one in result.operators:
        if one.counted:
            stream.write(f"| {escaped(one.name)} | {one.caught}/{one.counted} | {escaped(_score(one))} |\n")
    if result.survivors:
        stream.write("\n### No check noticed that the agent\n\n")
    for survivor in _one_of_each(result.survivors)[:_SURVIVORS_SHOWN]:
        what = shorten(survivor.what, _TEXT_LIMIT)
        stream.write(f"- {escaped(what)} ({escaped(survivor.key.label)}, trial-{survivor.trial + 1})\n")
    if result.idle_checks:
        stream.write("\n### Checks that caught nothing\n\n")
    for check in result.idle_checks[:_CHECKS_SHOWN]:
        stream.write(f"- {escaped(_check_text(check))}\n")
    if result.suggestions:
        stream.write(f"\n### Lines that would catch {counted(_covered(result), 'survivor')}\n\n")
        stream.write(quoted(suggestions_yaml(result.suggestions)))
    for note in result.notes:
        stream.write(f"- note: {escaped(note)}\n")


def write_mutation_json(result: MutationResult, stream: TextIO) -> None:
    stream.write(json_text(mutation_json(result)) + "\n")


def write_mutation_html(result: MutationResult, stream: TextIO) -> None:
    """One page without scripts or external files: the matrix, and each survivor beside its original."""
    from .html import page_style
    from .pages.environment import make_environment

    style, style_hash = page_style()
    template = make_environment().get_template("mutation.html.jinja")
    pieces = template.generate(**page_values(result), style=style, style_hash=style_hash)
    for piece in pieces:
        stream.write(piece)


def page_values(result: MutationResult) -> dict[str, Any]:
    """What the page of a mutation shows: the matrix, the suggestions, each survivor beside its original."""
    groups: dict[tuple[str, str], list[tuple[SurvivedMutant, list[tuple[bool, str, str]]]]] = {}
    for one in result.survivors[:_ON_PAGE]:
        groups.setdefault((one.key.label, one.operator), []).append((one, list(side_by_side(one))))
    anchors = {place: f"survivors-{number}" for number, place in enumerate(groups, start=1)}
    operators = [one.name for one in result.operators if one.counted]
    return {
        "result": result,
        "title": mutation_line(result),
        "operators": operators,
        "rows": [(row, [_cell(result, row.name, name, anchors) for name in operators]) for row in result.scenarios],
        "groups": [(anchors[place], *place, found) for place, found in groups.items()],
        "left_out": result.total.survived - min(len(result.survivors), _ON_PAGE),
        "suggested": suggestions_yaml(result.suggestions) if result.suggestions else "",
        "check_text": _check_text,
    }


def _cell(result: MutationResult, scenario: str, operator: str, anchors: Mapping[tuple[str, str], str]) -> Any:
    """Text, colour and link of one cell; None without mutants."""
    counts = result.matrix[scenario].get(operator)
    if counts is None:
        return None
    caught, of = counts
    colour = "good" if caught == of else "fair" if caught else "bad"
    return f"{caught}/{of}", colour, anchors.get((scenario, operator))


def side_by_side(survivor: SurvivedMutant) -> Iterator[tuple[bool, str, str]]:
    """Lines of the original and of the mutant, and whether they are equal."""
    original, mutant = (list(_lines(one)) for one in (survivor.original, survivor.mutant))
    for kind, start, end, other_start, other_end in SequenceMatcher(
        None, original, mutant, autojunk=False
    ).get_opcodes():
        ours, theirs = original[start:end], mutant[other_start:other_end]
        for place in range(max(len(ours), len(theirs))):
            left = ours[place] if place < len(ours) else ""
            right = theirs[place] if place < len(theirs) else ""
            yield kind == "equal", left, right


def _lines(transcript: Transcript) -> Iterator[str]:
    for turn in transcript.turns:
        yield f"user: {turn.user}"
        for call in turn.tool_calls or ():
            yield f"tool: {describe_call(call)}"
        yield f"agent: {turn.reply or '(no reply)'}"


_WRITERS: Mapping[str, tuple[Callable[[MutationResult, TextIO], None], str | None]] = {
    "json": (write_mutation_json, "mutation.json"),
    "markdown": (write_mutation_markdown, "mutation.md"),
    "html": (write_mutation_html, "mutation.html"),
    "github": (write_mutation_markdown, None),
}
MUTATION_FORMATS = tuple(_WRITERS)


def parse_mutation_report(text: str) -> tuple[str, Path | None]:
    """The format and path of `html=out.html`; None for the GitHub summary without a path."""
    name, given, path = text.partition("=")
    if name not in _WRITERS or (given and not path.strip()):
        raise UsageError(f"--report {text}: expected FORMAT or FORMAT=PATH with one of {', '.join(_WRITERS)}")
    file = _WRITERS[name][1]
    return name, Path(path.strip()) if given else None if file is None else Path(".seatrial") / file


def write_mutation(name: str, result: MutationResult, target: str | Path, *, folder: Path) -> None:
    """Write one report to a file; `-` is standard output."""
    write_to(name, lambda stream: _WRITERS[name][0](result, stream), target, folder=folder)
