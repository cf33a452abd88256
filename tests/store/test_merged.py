from datetime import UTC, datetime
from pathlib import Path

from seatrial.model.results import ModelUse, Severity, UniqueError
from seatrial.model.run import MergedErrors, Run, ScenarioEntry, ScenarioKey
from seatrial.store.store import open_store

KEY = ScenarioKey("s", "a")


def test_merged_errors_come_back_move_with_their_run_and_go_with_it(tmp_path: Path) -> None:
    error = UniqueError(severity=Severity.HIGH, label="\udc00\0", explanation="e", examples=((0, None), (2, 1)))
    merged = MergedErrors(key=KEY, errors=(error,), use=ModelUse(calls=1))
    with open_store(str(tmp_path / "runs.db")) as store, open_store(str(tmp_path / "other.db")) as other:
        store.start_run(Run(id="r1", name="r", started_at=datetime(2025, 5, 1, tzinfo=UTC)))
        store.add_scenarios("r1", [ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=1)])
        store.put_merged("r1", [MergedErrors(key=KEY, errors=())])
        store.put_merged("r1", [merged])
        assert store.merged("r1") == [merged]

        other.import_runs(store.export_run("r1"))
        assert other.merged("r1") == [merged]
        store.delete_runs(["r1"])
        assert store.merged("r1") == []
