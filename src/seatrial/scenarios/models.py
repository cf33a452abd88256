"""The models behind simulated users and judges: found by role, checked before the first trial."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.protocols import Evaluator, TrialJudge, TrialUser
from seatrial.model.results import BehaviourFailure
from seatrial.model.scenario import Scenario, User

if TYPE_CHECKING:
    from seatrial.judges.transcript_judge import MergedFailures
    from seatrial.llm.client import LLM
    from seatrial.llm.model import ModelSpec

Role = Literal["judge", "user", "dedup"]


@dataclass(slots=True, kw_only=True)
class RunModels:
    """Makes everything that asks a model. A run that asks none loads nothing of the model layer."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Models by role from flags and settings, for scenarios that name none."""
    cache: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    budgeted: bool = False
    """The run has a budget, so the price of every model must be known."""
    _llm: "LLM | None" = None
    _checked: dict[str, "ModelSpec"] = field(default_factory=dict)

    @property
    def llm(self) -> "LLM":
        if self._llm is None:
            from seatrial.llm.client import LLM

            self._llm = LLM(cache=self.cache)
        return self._llm

    async def close(self) -> None:
        if self._llm is not None:
            await self._llm.close()

    def model(self, role: Role, scenario: Scenario, *, own: Any = None) -> "ModelSpec":
        """The model for the role. Raises UsageError, with the line that fixes it, if there is none."""
        given = own or (getattr(scenario.models, role) if scenario.models else None) or self.defaults.get(role)
        if given is None and role == "dedup":
            return self.model("judge", scenario)
        if given is None:
            place = f"{scenario.source}: " if scenario.source else ""
            raise UsageError(
                f"{place}scenario {scenario.name!r} needs a model for the {role}. Give --{role}-model "
                f"openai:gpt-5-mini, or set {role}_model in [tool.seatrial], or models: {{{role}: …}} in the file."
            )
        return self._check(given)

    def _check(self, given: Any) -> "ModelSpec":
        key = repr(given)
        if key not in self._checked:
            from seatrial.llm.model import parse_model
            from seatrial.llm.providers import check_model, has_price

            spec = parse_model(given, environ=self.environ)
            check_model(spec, environ=self.environ)
            if self.budgeted and not has_price(spec):
                raise UsageError(
                    f"budget: the price of the model {spec.label!r} is not known, so the budget cannot be kept. Give "
                    f"the price of a million tokens: {{model: {spec.label!r}, price: {{input: 0.25, output: 2}}}} (0 "
                    "for a model of your own), or remove the budget."
                )
            self._checked[key] = spec
        return self._checked[key]

    def simulated_user(self, user: User, scenario: Scenario) -> Callable[[int], TrialUser]:
        """trial -> the simulated user of that trial."""
        from seatrial.users.simulated import SimulatedUser

        model = self.model("user", scenario)
        return lambda index: SimulatedUser(user, llm=self.llm, model=model, trial=index)

    def bind(self, evaluator: Any, scenario: Scenario) -> Evaluator:
        """The evaluator with the model that it asks; evaluators that ask no model stay as they are."""
        judge = getattr(evaluator, "judge", None)
        if callable(getattr(judge, "bound", None)):
            return replace(evaluator, judge=self.bind(judge, scenario))  # type: ignore[no-any-return]
        if not callable(getattr(evaluator, "bound", None)):
            return evaluator  # type: ignore[no-any-return]
        bound: Evaluator = evaluator.bound(self.llm, self.model("judge", scenario, own=evaluator.model))
        return bound

    def trial_judge(self, scenario: Scenario) -> TrialJudge:
        """The judge of a whole trial: metrics, outcomes and failures in one request."""
        from seatrial.judges.metrics import load_categories, resolve_metrics
        from seatrial.judges.transcript_judge import TranscriptJudge

        if scenario.failures:
            self.model("dedup", scenario)  # checked now, asked after all trials
        return TranscriptJudge(
            metrics=resolve_metrics(scenario.metrics) if scenario.metrics else (),
            outcomes=tuple(scenario.expected_outcomes),
            failures=bool(scenario.failures),
            categories=load_categories(severities=scenario.severities) if scenario.severities else None,
            votes=scenario.judge_votes or 1,
            llm=self.llm,
            model=self.model("judge", scenario),
        )

    async def merge_failures(
        self, trials: Iterable[tuple[int, Sequence[BehaviourFailure]]], scenario: Scenario
    ) -> "MergedFailures":
        """The unique errors of a scenario, from (trial index, failures) pairs."""
        from seatrial.judges.transcript_judge import merge_failures

        return await merge_failures(trials, llm=self.llm, model=self.model("dedup", scenario))
