"""In a project that does not use Seatrial the plugin is not there."""

from typing import Any

pytest_plugins = ["pytester"]

PLAIN = """
    import sys

    def test_nothing_of_seatrial_is_loaded():
        loaded = {name.partition(".")[0] for name in sys.modules}
        assert "seatrial" not in loaded
        assert [name for name in sys.modules if name.startswith("seatrial_pytest.")] == []
"""


def test_it_loads_prints_and_writes_nothing(project: Any) -> None:
    (project.path / "agent.py").unlink()
    project.write("test_plain.py", PLAIN)
    result = project.process("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert "seatrial" not in "\n".join(
        line for line in result.outlines if not line.startswith(("plugins:", "rootdir:"))
    )
    assert not list(project.path.glob("*seatrial*")) + list(project.path.glob(".*seatrial*"))


def test_it_loads_nothing_in_the_workers_of_xdist(project: Any) -> None:
    project.write("test_plain.py", PLAIN)
    result = project.process("-n", "1")
    result.assert_outcomes(passed=1)
    assert not (project.path / ".seatrial").exists()
