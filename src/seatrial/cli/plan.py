"""`seatrial plan`: the trials, time and money that it takes to detect a drop of the pass rate."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.comparison.aggregates import fixed_trials
from seatrial.comparison.planning import planning_rates, scenarios_to_see, trials_to_see
from seatrial.errors import UsageError
from seatrial.model.run import Run, TrialSummary
from seatrial.model.struct import Struct
from seatrial.reports.texts import counted
from seatrial.runs.compare_runs import newest_run
from seatrial.statistics.power import fixed_design
from seatrial.statistics.sequential import SequentialTest, operating_point
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

from .options import json_option, open_stored, store_option, store_url


class PastRun(Struct, frozen=True, kw_only=True):
    """The measurements of a stored run."""

    run: Run
    rates: tuple[float, ...]
    """The estimated pass rate of each scenario."""
    trials: float
    """Mean number of trials per scenario."""
    trial_ms: float
    cost_usd: float | None
    """Mean cost of a trial with its user and judge; None if the cost of a trial is unknown."""
    concurrency: int


@click.command("plan")
@click.option("--drop", type=float, default=10.0, show_default=True, help="Drop of the pass rate to detect, in points.")
@click.option("--run", "ref", help="Stored run to calculate from (latest).")
@click.option("--rate", type=float, help="Current pass rate from 0 to 1, instead of the run's.")
@click.option("--scenarios", type=click.IntRange(min=1), help="Number of scenarios, instead of the run's.")
@click.option("--trials", type=click.IntRange(min=1), help="Trials per scenario, to calculate the number of scenarios.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Probability of a false alarm.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of detecting the drop.")
@json_option
@store_option
def command(drop: float, alpha: float, power: float, as_json: bool, **options: Any) -> int:
    """Calculate how many trials, scenarios, minutes and dollars it takes to detect a drop of the pass rate.

    The latest stored run gives pass rates, times and costs; --run chooses another. Without a stored run, give --rate
    and --scenarios.
    """
    rate, scenarios = options["rate"], options["scenarios"]
    past = _past(options["ref"], options["store"], needed=rate is None or scenarios is None)
    rates = _rates(past, rate, scenarios)
    mean = sum(rates) / len(rates)
    _check(drop, mean, alpha, power)
    usual = options["trials"] or (max(1, round(past.trials)) if past else 5)
    each = trials_to_see(drop / 100, rates, alpha=alpha, power=power)
    more = scenarios_to_see(drop / 100, mean, usual, alpha=alpha, power=power)
    plan: dict[str, Any] = {
        "drop_points": drop,
        "alpha": alpha,
        "power": power,
        "run": past.run.id if past else None,
        "pass_rate": mean,
        "scenarios": len(rates),
        "suite": None if each is None else {"trials": each, **_bill(each * len(rates), past)},
        "more_scenarios": None if more is None else {"scenarios": more, "trials": usual, **_bill(more * usual, past)},
        "one_scenario": _one_scenario(drop / 100, mean, alpha, power, past),
    }
    click.echo(json.dumps(plan) if as_json else "\n".join(_lines(plan)))
    return 0


def _past(ref: str | None, store: str | None, *, needed: bool) -> PastRun | None:
    """The measured run; None if none is stored and none is `needed`."""
    url = store_url(store)
    if ref is not None or "://" in url or Path(url).expanduser().exists():
        with open_stored(store) as opened:
            if ref is not None or opened.runs(1):
                return _measure(opened, ref or "latest")
    if needed:
        raise UsageError(f"{url}: no run is stored yet. Give --rate and --scenarios, or run something first.")
    return None


def _measure(store: Store, ref: str) -> PastRun:
    """Raises UsageError if no trial of the run passed or failed."""
    run = newest_run(store) if ref == "latest" else store.run(ref)
    summaries = list(store.summaries(run.id))
    fixed = {entry.key: fixed_trials(entry) for entry in store.entries(run.id)}
    counts: dict[object, tuple[int, int]] = {}
    for summary in summaries:
        answer = answer_of(summary)
        if answer is not None and summary.index < fixed[summary.key]:
            passed, total = counts.get(summary.key, (0, 0))
            counts[summary.key] = (passed + answer, total + 1)
    if not counts:
        raise UsageError(f"run {run.id}: no trial passed or failed. Choose another run with --run.")
    config = (run.config or {}).get("run") or {}
    return PastRun(
        run=run,
        rates=tuple(planning_rates(list(counts.values()))),
        trials=sum(total for _, total in counts.values()) / len(counts),
        trial_ms=sum(summary.duration_ms for summary in summaries) / len(summaries),
        cost_usd=_trial_cost(summaries),
        concurrency=int(config.get("concurrency") or 20),
    )


def _trial_cost(summaries: Sequence[TrialSummary]) -> float | None:
    total = 0.0
    for summary in summaries:
        instruments = summary.instruments
        if summary.cost_usd is None or (instruments is not None and instruments.calls and instruments.cost_usd is None):
            return None
        total += summary.cost_usd + ((instruments.cost_usd or 0.0) if instruments else 0.0)
    return total / len(summaries)


def _rates(past: PastRun | None, rate: float | None, scenarios: int | None) -> list[float]:
    """A pass rate for each scenario: of the run, repeated if more scenarios are asked for."""
    if rate is not None and not 0.0 < rate <= 1.0:
        raise UsageError(f"--rate {rate!r}: expected more than 0 and at most 1, such as 0.9.")
    known = list(past.rates) if past else []
    if rate is not None:
        return [rate] * (scenarios or len(known))
    return [known[place % len(known)] for place in range(scenarios or len(known))]


def _check(drop: float, mean: float, alpha: float, power: float) -> None:
    if not 0.0 < drop / 100 <= mean:
        raise UsageError(f"--drop {drop:g}: must be above 0 and at most the pass rate of {100 * mean:.3g} points.")
    for name, value in (("--alpha", alpha), ("--power", power)):
        if not 0.0 < value < 1.0:
            raise UsageError(f"{name} {value!r}: expected a value between 0 and 1, such as 0.05 or 0.8.")


def _one_scenario(drop: float, good: float, alpha: float, power: float, past: PastRun | None) -> dict[str, Any]:
    """One scenario alone: between two runs, against a threshold, and with `trials: auto`."""
    bad = max(good - drop, 0.0)
    pair = trials_to_see(drop, [good], alpha=alpha, power=power)
    design = fixed_design(good, bad, alpha=alpha, power=power) if bad < good else None
    found: dict[str, Any] = {
        "compare": None if pair is None else {"trials": pair, **_bill(pair, past)},
        "bar": None
        if design is None
        else {"trials": design.trials, "fail_at_most": design.fail_at_most, **_bill(design.trials, past)},
        "auto": None,
    }
    # The settings are shown with two decimals: calculate with what is shown.
    good, bad = round(good, 2), round(bad, 2)
    if 0.0 < bad < good < 1.0:
        test = SequentialTest(good=good, bad=bad, alpha=alpha, beta=1.0 - power, max_trials=2 * (pair or 100))
        found["auto"] = {
            "good": good,
            "alpha": test.alpha,
            "beta": test.beta,
            "bad": bad,
            "max_trials": test.max_trials,
            "expected_if_good": operating_point(test, good).expected_trials,
            "expected_if_bad": operating_point(test, bad).expected_trials,
        }
    return found


def _bill(trials: int, past: PastRun | None) -> dict[str, Any]:
    """What a run with this number of trials takes."""
    minutes = cost = None
    if past is not None:
        minutes = trials * past.trial_ms / max(1, min(past.concurrency, trials)) / 60_000
        cost = None if past.cost_usd is None else trials * past.cost_usd
    return {"trials_of_a_run": trials, "minutes": minutes, "cost_usd": cost}


def _lines(plan: dict[str, Any]) -> list[str]:
    drop = f"drop of {plan['drop_points']:g} points from {100 * plan['pass_rate']:.3g} %"
    errors = f"{100 * plan['alpha']:g} % false alarms, {100 * plan['power']:g} % of such drops detected"
    lines = [f"To detect a {drop} over {counted(plan['scenarios'], 'scenario')} ({errors}):"]
    suite, more, one = plan["suite"], plan["more_scenarios"], plan["one_scenario"]
    if suite:
        lines.append(f"  {counted(suite['trials'], 'trial')} of each scenario in both runs: {_cost(suite)}")
    else:
        lines.append("  no reasonable number of trials is enough")
    if more and more["scenarios"] != plan["scenarios"]:
        what = f"{counted(more['scenarios'], 'scenario')} like these with {counted(more['trials'], 'trial')} each"
        lines.append(f"  or {what}: {_cost(more)}")
    lines.append(f"To detect a {drop} in one scenario:")
    if one["compare"]:
        lines.append(f"  between two runs: {_cost(one['compare'])}")
    if one["bar"]:
        limit = one["bar"]["fail_at_most"]
        lines.append(f"  against a threshold: {_cost(one['bar'])} (fail if {limit} or fewer pass)")
    if one["auto"]:
        auto = one["auto"]
        settings = ", ".join(f"{key}: {auto[key]:.2g}" for key in ("good", "bad", "alpha", "beta"))
        settings += f", max_trials: {auto['max_trials']}"
        lines.append(
            f"  with trials: auto, sequential: {{{settings}}}: "
            f"on average {auto['expected_if_good']:.0f} trials if it is good, "
            f"{auto['expected_if_bad']:.0f} if it is bad"
        )
    source = f"Calculated from run {plan['run']}."
    return [*lines, source if plan["run"] else "Minutes and cost are known once a run is stored."]


def _cost(bill: dict[str, Any]) -> str:
    parts = [f"{counted(bill['trials_of_a_run'], 'trial')} per run"]
    if bill["minutes"] is not None:
        minutes = bill["minutes"]
        parts.append("under a minute" if minutes < 1 else f"about {minutes:,.0f} min")
    if bill["cost_usd"] is not None:
        parts.append(f"about ${bill['cost_usd']:,.2f}")
    return ", ".join(parts)
