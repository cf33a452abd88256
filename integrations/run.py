"""Run the tests of each integration in its own environment, and print one line for each."""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent


def run(framework: str, *, folder: Path) -> bool:
    """Whether the integration passed: there was at least one test, every test passed, none was skipped."""
    started = time.monotonic()
    python, report = HERE.parent / ".venvs" / framework / "bin" / "python", folder / f"{framework}.xml"
    # From the root, so that Python does not import a folder instead of the framework it is named after.
    options = ["-c", HERE / "pytest.ini", "--rootdir", HERE.parent, "-q", "--no-header", f"--junit-xml={report}"]
    tests = [HERE / framework]
    if not (HERE / framework / "requirements.txt").exists():
        tests.append(HERE / "test_init.py")
    done = subprocess.run([python, "-m", "pytest", *options, *tests], capture_output=True, text=True, check=False)
    counts = dict(ET.parse(report).getroot()[0].items()) if report.exists() else {}
    tests_run, skipped = int(counts.get("tests", 0)), int(counts.get("skipped", 0))
    passed = done.returncode == 0 and tests_run > 0 and not skipped
    status = "passed" if passed else "FAILED"
    line = f"{framework:17} {installed(python):28} {status:7} {tests_run:3} tests, {skipped} skipped"
    output = "" if passed else done.stdout + done.stderr
    print(output, f"{line}, {time.monotonic() - started:.1f} s", sep="", flush=True)
    return passed


def installed(python: Path) -> str:
    """The package that the environment is for, and its version."""
    ask = (
        "import sys; from importlib.metadata import version; "
        "from seatrial.agents.frameworks.registry import FRAMEWORKS; "
        "name = sys.argv[1]; package = FRAMEWORKS[name].package if name in FRAMEWORKS else name; "
        "print(package, version(package))"
    )
    done = subprocess.run([python, "-c", ask, python.parts[-3]], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not installed"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("integrations: name at least one folder of integrations/")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        passed = list(pool.map(partial(run, folder=Path(folder)), sys.argv[1:]))
    print(f"{sum(passed)} of {len(passed)} integrations passed")
    sys.exit(0 if all(passed) and passed else 1)
