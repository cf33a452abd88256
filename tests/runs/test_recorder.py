"""Listeners are told of a trial only once it is safe, and of all of them."""

from pathlib import Path

from seatrial import Scenario
from seatrial.model.protocols import Event, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.run import RunState
from seatrial.runs.execute_run import execute
from seatrial.runs.request import RunRequest
from seatrial.store.store import open_store


def test_a_trial_is_in_the_store_when_listeners_are_told_of_it(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.db")
    seen: list[Event] = []
    missing = []

    def listen(event: Event) -> None:
        seen.append(event)
        if isinstance(event, TrialFinished):
            with open_store(url) as store:
                (run,) = store.runs()
                if (event.trial.key, event.trial.index) not in store.finished(run.id):
                    missing.append(event.trial)

    request = RunRequest(
        sources=(Scenario(name="greet", input="Hello", trials=30),),
        agent=lambda input: "hi",
        store=url,
        listeners=(listen,),
    )
    report = execute(request)

    assert missing == []
    assert isinstance(seen[0], RunStarted)
    assert (seen[0].scenarios, seen[0].trials) == (1, 30)
    assert sum(isinstance(event, ScenarioPlanned) for event in seen) == 1
    assert sum(isinstance(event, TrialFinished) for event in seen) == report.played == 30
    assert isinstance(seen[-1], RunFinished)
    assert seen[-1].run.state is RunState.FINISHED
