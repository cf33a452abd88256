"""What a further run will take, by what an earlier one took."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seatrial.comparison.significance import estimate_rates, scenarios_to_see, trials_to_see
from seatrial.errors import UsageError
from seatrial.model.run import Run, TrialSummary
from seatrial.reports.texts import counted
from seatrial.runs.compare_runs import newest_run
from seatrial.statistics.power import fixed_design
from seatrial.statistics.sequential import SequentialTest, operating_point
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

from .options import open_stored, store_url


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A stored run, as a measure for runs to come."""

    run: Run
    rates: tuple[float, ...]
    """The pass rate of each scenario, as far as its trials say."""
    trials: float
    """Of a scenario, on average."""
    trial_ms: float
    cost_usd: float | None
    """Of a trial with its users and judges; None where it is not known of every one."""
    concurrency: int

    def minutes(self, trials: int) -> float:
        """How long so many trials take."""
        at_a_time = max(1, min(self.concurrency, trials))
        return trials * self.trial_ms / at_a_time / 60_000

    def cost(self, trials: int) -> float | None:
        return None if self.cost_usd is None else trials * self.cost_usd


def look_back(store: Store, ref: str) -> PastRun:
    """The run, measured. Raises UsageError where no trial of it has an answer."""
    run = newest_run(store) if ref == "latest" else store.run(ref)
    summaries = list(store.summaries(run.id))
    counts: dict[object, tuple[int, int]] = {}
    for summary in summaries:
        answer = answer_of(summary)
        if answer is not None:
            passed, total = counts.get(summary.key, (0, 0))
            counts[summary.key] = (passed + answer, total + 1)
    if not counts:
        raise UsageError(
            f"run {run.id}: no trial passed or failed, so nothing can be calculated. Choose another run with --run."
        )
    config = (run.config or {}).get("run") or {}
    return PastRun(
        run=run,
        rates=tuple(estimate_rates(list(counts.values()))),
        trials=sum(total for _, total in counts.values()) / len(counts),
        trial_ms=sum(summary.duration_ms for summary in summaries) / len(summaries),
        cost_usd=_cost_of_a_trial(summaries),
        concurrency=int(config.get("concurrency") or 20),
    )


def _cost_of_a_trial(summaries: Sequence[TrialSummary]) -> float | None:
    total = 0.0
    for summary in summaries:
        instruments = summary.instruments
        if summary.cost_usd is None or (instruments is not None and instruments.calls and instruments.cost_usd is None):
            return None
        total += summary.cost_usd + ((instruments.cost_usd or 0.0) if instruments else 0.0)
    return total / len(summaries)


@click.command("plan")
@click.option("--drop", type=float, default=10.0, show_default=True, help="Drop of the pass rate to detect, in points.")
@click.option("--run", "ref", help="Stored run to calculate from (latest).")
@click.option("--rate", type=float, help="Current pass rate from 0 to 1, instead of the run's.")
@click.option("--scenarios", type=click.IntRange(min=1), help="Number of scenarios, instead of the run's.")
@click.option("--trials", type=click.IntRange(min=1), help="Trials per scenario, to calculate the number of scenarios.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Probability of a false alarm.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of detecting the drop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--store", help="Where runs are stored: a file or postgresql://….")
def command(
    drop: float,
    ref: str | None,
    rate: float | None,
    scenarios: int | None,
    trials: int | None,
    alpha: float,
    power: float,
    as_json: bool,
    store: str | None,
) -> int:
    """How many trials, scenarios, minutes and dollars it takes to see the pass rate fall.

    By the latest stored run, or another with --run; without any, give --rate and --scenarios.
    """
    past = _past(ref, store, needed=rate is None or scenarios is None)
    rates = _rates(past, rate, scenarios)
    share = _check(drop / 100.0, rates, alpha, power)
    mean = sum(rates) / len(rates)
    usual = trials or (max(1, round(past.trials)) if past else 5)
    form: dict[str, Any] = {
        "drop_points": drop,
        "alpha": alpha,
        "power": power,
        "run": past.run.id if past else None,
        "pass_rate": mean,
        "scenarios": len(rates),
        "suite": _suite(share, rates, alpha, power, past),
        "more_scenarios": _more_scenarios(share, mean, usual, alpha, power, past),
        "one_scenario": _one(share, mean, alpha, power, past),
    }
    click.echo(json.dumps(form) if as_json else "\n".join(_lines(form)))
    return 0


def _past(ref: str | None, store: str | None, *, needed: bool) -> PastRun | None:
    url = store_url(store)
    if ref is None and "://" not in url and not Path(url).expanduser().exists():
        if needed:
            raise UsageError(
                f"{url}: nothing is stored there yet to plan by. Give --rate and --scenarios, or run first."
            )
        return None
    with open_stored(store) as opened:
        if ref is None and not opened.runs(1):
            if needed:
                raise UsageError(f"{url}: no run is stored yet. Give --rate and --scenarios, or run something first.")
            return None
        return look_back(opened, ref or "latest")


def _rates(past: PastRun | None, rate: float | None, scenarios: int | None) -> list[float]:
    if rate is not None and not 0.0 < rate <= 1.0:
        raise UsageError(f"--rate {rate!r}: expected more than 0 and at most 1, such as 0.9.")
    known = list(past.rates) if past else []
    if rate is not None:
        return [rate] * (scenarios or len(known))
    if scenarios is None or scenarios == len(known):
        return known
    return [known[place % len(known)] for place in range(scenarios)]


def _check(drop: float, rates: list[float], alpha: float, power: float) -> float:
    mean = sum(rates) / len(rates)
    if not 0.0 < drop <= mean:
        raise UsageError(
            f"--drop {100 * drop:g}: must be above 0 and at most the pass rate of {100 * mean:.3g} points."
        )
    for name, value in (("--alpha", alpha), ("--power", power)):
        if not 0.0 < value < 1.0:
            raise UsageError(f"{name} {value!r}: expected a value between 0 and 1, such as 0.05 or 0.8.")
    return drop


def _suite(drop: float, rates: list[float], alpha: float, power: float, past: PastRun | None) -> dict[str, Any] | None:
    each = trials_to_see(drop, rates, alpha=alpha, power=power)
    return None if each is None else {"trials": each, **_bill(each * len(rates), past)}


def _more_scenarios(
    drop: float, mean: float, usual: int, alpha: float, power: float, past: PastRun | None
) -> dict[str, Any] | None:
    count = scenarios_to_see(drop, mean, usual, alpha=alpha, power=power)
    return None if count is None else {"scenarios": count, "trials": usual, **_bill(count * usual, past)}


def _one(drop: float, mean: float, alpha: float, power: float, past: PastRun | None) -> dict[str, Any]:
    """One scenario by itself: against another run, against a bar, and with the sequential test."""
    bar, bad = mean, max(mean - drop, 0.0)
    pair = trials_to_see(drop, [mean], alpha=alpha, power=power)
    design = fixed_design(bar, bad, alpha=alpha, power=power) if bad < bar else None
    found: dict[str, Any] = {
        "compare": None if pair is None else {"trials": pair, **_bill(pair, past)},
        "bar": None
        if design is None
        else {"trials": design.trials, "fail_at_most": design.fail_at_most, **_bill(design.trials, past)},
        "auto": None,
    }
    if 0.0 < bad < bar < 1.0:
        test = SequentialTest(good=bar, bad=bad, alpha=alpha, beta=1.0 - power, max_trials=2 * (pair or 100))
        points = [operating_point(test, true) for true in (bar, bad)]
        found["auto"] = {
            "good": bar,
            "bad": bad,
            "max_trials": test.max_trials,
            "expected_if_good": points[0].expected_trials,
            "expected_if_bad": points[1].expected_trials,
        }
    return found


def _bill(trials: int, past: PastRun | None) -> dict[str, Any]:
    return {
        "trials_of_a_run": trials,
        "minutes": None if past is None else past.minutes(trials),
        "cost_usd": None if past is None else past.cost(trials),
    }


def _lines(form: dict[str, Any]) -> list[str]:
    fall = f"fall by {form['drop_points']:g} points from {100 * form['pass_rate']:.3g} %"
    sure = f"{100 * form['alpha']:g} % false alarms, {100 * form['power']:g} % of such falls seen"
    lines = [f"To see the pass rate of {counted(form['scenarios'], 'scenario')} {fall} ({sure}):"]
    suite, more, one = form["suite"], form["more_scenarios"], form["one_scenario"]
    if suite:
        lines.append(f"  {counted(suite['trials'], 'trial')} of each scenario in both runs: {_cost(suite)}")
    else:
        lines.append("  no number of trials within reason is enough")
    if more and more["scenarios"] != form["scenarios"]:
        what = f"{counted(more['scenarios'], 'scenario')} like these with {counted(more['trials'], 'trial')} each"
        lines.append(f"  or {what}: {_cost(more)}")
    lines.append(f"To see one scenario alone {fall}:")
    if one["compare"]:
        lines.append(f"  between two runs: {_cost(one['compare'])}")
    if one["bar"]:
        lines.append(f"  against a bar: {_cost(one['bar'])} (fail when {one['bar']['fail_at_most']} or fewer pass)")
    if one["auto"]:
        auto = one["auto"]
        lines.append(
            f"  with trials: auto (good: {auto['good']:.2g}, bad: {auto['bad']:.2g}): on average "
            f"{auto['expected_if_good']:.0f} trials if it is good, {auto['expected_if_bad']:.0f} if it is bad, "
            f"at most {auto['max_trials']}"
        )
    lines.append(f"By run {form['run']}." if form["run"] else "Minutes and money are known once a run is stored.")
    return lines


def _cost(bill: dict[str, Any]) -> str:
    parts = [f"{counted(bill['trials_of_a_run'], 'trial')} a run"]
    if bill["minutes"] is not None:
        minutes = bill["minutes"]
        parts.append("under a minute" if minutes < 1 else f"about {minutes:,.0f} min")
    if bill["cost_usd"] is not None:
        parts.append(f"about ${bill['cost_usd']:,.2f}")
    return ", ".join(parts)
