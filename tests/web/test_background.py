"""Pages that have to wait, and what is kept."""

import threading
from typing import Any

import pytest

from seatrial.store.store import open_store
from seatrial.web.background import StillWorking, Worker
from seatrial.web.verdict_cache import VerdictCache


@pytest.fixture
def worker() -> Any:
    made = Worker()
    yield made
    made.close()


def test_who_has_no_patience_is_told_to_come_back_and_finds_it_done(worker: Worker) -> None:
    may_end = threading.Event()
    with pytest.raises(StillWorking):
        worker.do("sum", lambda: may_end.wait(), 0.01)
    may_end.set()

    assert worker.do("sum", lambda: "made anew", None) in (True, "made anew")


def test_what_two_ask_for_is_done_once(worker: Worker) -> None:
    may_end, calls = threading.Event(), []

    def work() -> int:
        calls.append(1)
        may_end.wait()
        return 7

    for _ in range(3):
        with pytest.raises(StillWorking):
            worker.do("same", work, 0.01)
    may_end.set()
    worker.do("other", lambda: None)

    assert len(calls) == 1


def test_an_error_of_the_work_reaches_whoever_asked(worker: Worker) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        worker.do("bad", fail, 5)


def test_a_page_that_must_wait_says_so_and_asks_again(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "do", lambda *_: (_ for _ in ()).throw(StillWorking))
    answer = served.get("/compare?baseline_run_id=bad&candidate_run_id=good")

    assert answer.status_code == 202
    assert 'http-equiv="refresh"' in answer.text


def test_a_verdict_is_known_once_it_was_made(project: Any, worker: Worker) -> None:
    with open_store(project.store) as store:
        runs = VerdictCache(store, worker)
        row = store.run_row("bad")
        assert row is not None
        assert runs.verdict(row) is None
        decided = runs.of(row)

        assert runs.verdict(row) == decided.outcome.verdict
        assert runs.of(row) is decided


def test_a_run_that_is_gone_is_none(project: Any, worker: Worker) -> None:
    with open_store(project.store) as store:
        assert VerdictCache(store, worker).get("nosuch") is None
