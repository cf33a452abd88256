"""Run the contract of each framework in its own environment, and show what came of it."""

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
    """Whether the framework holds its contract: every check passed, none was skipped, and there were some."""
    started = time.monotonic()
    python, report = HERE.parent / ".venvs" / framework / "bin" / "python", folder / f"{framework}.xml"
    # From the root, so that a folder is not taken for the framework it is named after.
    options = ["-c", HERE / "pytest.ini", "--rootdir", HERE.parent, "-q", "--no-header", f"--junit-xml={report}"]
    tests = [HERE / framework]
    if not (HERE / framework / "requirements.txt").exists():
        tests.append(HERE / "test_init.py")
    done = subprocess.run([python, "-m", "pytest", *options, *tests], capture_output=True, text=True, check=False)
    counts = dict(ET.parse(report).getroot()[0].items()) if report.exists() else {}
    checks, skipped = int(counts.get("tests", 0)), int(counts.get("skipped", 0))
    held = done.returncode == 0 and checks > 0 and not skipped
    said = (
        f"{framework:17} {installed(python):28} {'held' if held else 'BROKEN':7} {checks:3} checks, {skipped} skipped"
    )
    print("" if held else done.stdout + done.stderr, f"{said}, {time.monotonic() - started:.1f} s", sep="", flush=True)
    return held


def installed(python: Path) -> str:
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
        sys.exit("contracts: name at least one framework")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as both:
        held = list(both.map(partial(run, folder=Path(folder)), sys.argv[1:]))
    print(f"{sum(held)} of {len(held)} contracts held")
    sys.exit(0 if all(held) and held else 1)
