"""Filter, search, sort and page the scenarios and trials of a run."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeVar, get_args

from seatrial.model.conversation import ErrorKind
from seatrial.model.run import ScenarioKey, ScenarioOutcome, Status, TrialSummary
from seatrial.model.struct import Struct
from seatrial.reports.texts import failing, not_counted_reason, trials_of
from seatrial.store.store import Store
from seatrial.store.trials import SearchResult

from .background import Worker
from .verdict_cache import DecidedRun

T = TypeVar("T")
Order = Literal["worst", "order", "rate", "slowest", "costliest"]
ORDERS: tuple[Order, ...] = get_args(Order)


class TrialFilter(Struct, frozen=True, kw_only=True):
    """A filter. None and empty values match everything."""

    status: Status | None = None
    tag: str = ""
    text: str = ""
    """In names, reasons and, for trials, conversations; case is ignored."""
    error_kind: ErrorKind | None = None
    scenario: str | None = None
    """The id in URLs."""


class Page(Struct, frozen=True, kw_only=True):
    """A part of a list, and its position."""

    items: tuple[Any, ...]
    total: int
    offset: int
    limit: int

    @property
    def last(self) -> int:
        return self.offset + len(self.items)

    @property
    def before(self) -> int | None:
        """The offset of the previous page; None on the first page."""
        return max(self.offset - self.limit, 0) if self.offset else None

    @property
    def after(self) -> int | None:
        return self.last if self.last < self.total else None


def take_page(items: Sequence[T], *, offset: int, limit: int) -> Page:
    return Page(items=tuple(items[offset : offset + limit]), total=len(items), offset=offset, limit=limit)


def find_scenarios(decided: DecidedRun, wanted: TrialFilter, order: Order = "worst") -> list[ScenarioOutcome]:
    """The scenarios that match the filter, sorted."""
    found = [one for one in decided.outcome.scenarios if _is_wanted_scenario(one, wanted)]
    return _ORDERS[order](decided, found)


def find_trials(
    decided: DecidedRun, wanted: TrialFilter, said: Collection[tuple[ScenarioKey, int]] = ()
) -> list[TrialSummary]:
    """The trials that match the filter, in the order of the run. `said`: trials whose conversation has the text."""
    summaries: Sequence[TrialSummary] = decided.summaries
    if wanted.scenario is not None:
        outcome = decided.scenarios.get(wanted.scenario)
        summaries = decided.trials.get(outcome.entry.key, ()) if outcome is not None else ()
    tagged = _tagged(decided, wanted.tag)
    text = wanted.text.lower()
    return [
        one
        for one in summaries
        if (wanted.status is None or one.status is wanted.status)
        and (wanted.error_kind is None or one.error_kind is wanted.error_kind)
        and (tagged is None or one.key in tagged)
        and (not text or (one.key, one.index) in said or text in _text_of_trial(one))
    ]


def tags_of(decided: DecidedRun) -> list[str]:
    return sorted({tag for one in decided.outcome.scenarios for tag in one.entry.tags})


def status_of(one: ScenarioOutcome) -> str:
    """The status in tables: `skipped` if the scenario does not count."""
    return "skipped" if not_counted_reason(one) is not None else one.verdict.status.value


def _is_wanted_scenario(one: ScenarioOutcome, wanted: TrialFilter) -> bool:
    if wanted.status is not None and one.verdict.status is not wanted.status:
        return False
    if wanted.tag and wanted.tag not in one.entry.tags:
        return False
    return not wanted.text or wanted.text.lower() in _text_of_scenario(one)


def _text_of_scenario(one: ScenarioOutcome) -> str:
    return "\n".join((one.entry.key.label, one.entry.key.suite, *one.verdict.failure_reasons)).lower()


def _text_of_trial(one: TrialSummary) -> str:
    return "\n".join((one.key.label, one.key.suite, *one.failure_reasons, one.error_message or "")).lower()


def _tagged(decided: DecidedRun, tag: str) -> set[ScenarioKey] | None:
    return {one.entry.key for one in decided.outcome.scenarios if tag in one.entry.tags} if tag else None


def _worst_first(decided: DecidedRun, found: list[ScenarioOutcome]) -> list[ScenarioOutcome]:
    places = {one.entry.key: place for place, one in enumerate(failing(decided.outcome))}
    return sorted(found, key=lambda one: (places.get(one.entry.key, len(places)), one.entry.position))


def _by_rate(decided: DecidedRun, found: list[ScenarioOutcome]) -> list[ScenarioOutcome]:
    return sorted(found, key=lambda one: one.passed / max(trials_of(one), 1))


def _slowest(decided: DecidedRun, found: list[ScenarioOutcome]) -> list[ScenarioOutcome]:
    return _by_sum(decided, found, "latency_ms")


def _costliest(decided: DecidedRun, found: list[ScenarioOutcome]) -> list[ScenarioOutcome]:
    return _by_sum(decided, found, "cost_usd")


def _by_sum(decided: DecidedRun, found: list[ScenarioOutcome], name: str) -> list[ScenarioOutcome]:
    """Largest first, unknown last."""

    def place(one: ScenarioOutcome) -> float:
        value = getattr(decided.sums.get(one.entry.key), name, None)
        return 1.0 if value is None else -float(value)

    return sorted(found, key=place)


_ORDERS: dict[Order, Callable[[DecidedRun, list[ScenarioOutcome]], list[ScenarioOutcome]]] = {
    "worst": _worst_first,
    "order": lambda _, found: found,
    "rate": _by_rate,
    "slowest": _slowest,
    "costliest": _costliest,
}


MOST_SEARCHES = 32


class ConversationSearch:
    """Searches conversations for a text, and caches the results."""

    def __init__(self, store: Store, worker: Worker) -> None:
        self._store = store
        self._worker = worker
        self._kept: OrderedDict[str, SearchResult] = OrderedDict()

    def find(
        self, decided: DecidedRun, text: str, *, key: ScenarioKey | None = None, timeout: float | None = None
    ) -> SearchResult:
        """The trials of the run, or of one scenario, whose conversation has the text. Raises StillWorking."""
        asked = repr((decided.row, text, key))
        known = self._kept.get(asked)
        if known is None:
            known = self._worker.do(asked, lambda: self._find(asked, decided, text, key), timeout)
        return known

    def _find(self, asked: str, decided: DecidedRun, text: str, key: ScenarioKey | None) -> SearchResult:
        found = self._kept[asked] = self._store.search(decided.run.id, text, key=key)
        while len(self._kept) > MOST_SEARCHES:
            self._kept.popitem(last=False)
        return found
