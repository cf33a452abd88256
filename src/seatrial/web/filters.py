"""Filter, search, sort and page the scenarios and trials of a run."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeVar, get_args

from seatrial.model.conversation import ErrorKind
from seatrial.model.run import ScenarioKey, ScenarioOutcome, Status, TrialSummary
from seatrial.model.struct import Struct
from seatrial.reports.scenario_totals import is_flaky
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
    flaky: bool = False
    """Only scenarios in which some trials passed and others did not, and only their trials."""
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


def find_scenarios(decided: DecidedRun, trial_filter: TrialFilter, order: Order = "worst") -> list[ScenarioOutcome]:
    """The scenarios that match the filter, sorted."""
    found = [one for one in decided.outcome.scenarios if _matches(one, trial_filter)]
    return sorted(found, key=_sort_key(decided, order))


def find_trials(
    decided: DecidedRun, trial_filter: TrialFilter, said: Collection[tuple[ScenarioKey, int]] = ()
) -> list[TrialSummary]:
    """The trials that match the filter, in the order of the run. `said`: trials whose conversation has the text."""
    summaries: Sequence[TrialSummary] = decided.summaries
    if trial_filter.scenario is not None:
        outcome = decided.scenarios.get(trial_filter.scenario)
        summaries = decided.trials.get(outcome.entry.key, ()) if outcome is not None else ()
    tagged = _tagged(decided, trial_filter.tag)
    if trial_filter.flaky:
        flaky = {one.entry.key for one in decided.outcome.scenarios if is_flaky(one)}
        tagged = flaky if tagged is None else tagged & flaky
    text = trial_filter.text.lower()
    return [
        one
        for one in summaries
        if (trial_filter.status is None or one.status is trial_filter.status)
        and (trial_filter.error_kind is None or one.error_kind is trial_filter.error_kind)
        and (tagged is None or one.key in tagged)
        and (not text or (one.key, one.index) in said or text in _text_of_trial(one))
    ]


def tags_of(decided: DecidedRun) -> list[str]:
    return sorted({tag for one in decided.outcome.scenarios for tag in one.entry.tags})


def status_of(one: ScenarioOutcome) -> str:
    """The status in tables: `skipped` if the scenario does not count."""
    return "skipped" if not_counted_reason(one) is not None else one.verdict.status.value


def _matches(one: ScenarioOutcome, trial_filter: TrialFilter) -> bool:
    if trial_filter.status is not None and one.verdict.status is not trial_filter.status:
        return False
    if trial_filter.flaky and not is_flaky(one):
        return False
    if trial_filter.tag and trial_filter.tag not in one.entry.tags:
        return False
    return not trial_filter.text or trial_filter.text.lower() in _text_of_scenario(one)


def _text_of_scenario(one: ScenarioOutcome) -> str:
    return "\n".join((one.entry.key.label, one.entry.key.suite, *one.verdict.failure_reasons)).lower()


def _text_of_trial(one: TrialSummary) -> str:
    return "\n".join((one.key.label, one.key.suite, *one.failure_reasons, one.error_message or "")).lower()


def _tagged(decided: DecidedRun, tag: str) -> set[ScenarioKey] | None:
    return {one.entry.key for one in decided.outcome.scenarios if tag in one.entry.tags} if tag else None


def _sort_key(decided: DecidedRun, order: Order) -> Callable[[ScenarioOutcome], float]:
    """What to sort by. Sorting is stable, so equal scenarios keep the order of the run."""
    if order == "worst":
        places = {one.entry.key: place for place, one in enumerate(failing(decided.outcome))}
        return lambda one: places.get(one.entry.key, len(places))
    if order == "rate":
        return lambda one: one.passed / max(trials_of(one), 1)
    if order == "order":
        return lambda one: one.entry.position
    name = "latency_ms" if order == "slowest" else "cost_usd"

    def largest_first(one: ScenarioOutcome) -> float:
        value = getattr(decided.sums.get(one.entry.key), name, None)
        return 1.0 if value is None else -float(value)

    return largest_first


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
        cache_key = repr((decided.row, text, key))
        known = self._kept.get(cache_key)
        if known is None:
            known = self._worker.do(cache_key, lambda: self._find(cache_key, decided, text, key), timeout)
        return known

    def _find(self, cache_key: str, decided: DecidedRun, text: str, key: ScenarioKey | None) -> SearchResult:
        found = self._kept[cache_key] = self._store.search(decided.run.id, text, key=key)
        while len(self._kept) > MOST_SEARCHES:
            self._kept.popitem(last=False)
        return found
