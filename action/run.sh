#!/usr/bin/env bash
# Runs the scenarios, writes reports and outputs. Ends with 0: the last step of the action ends with the exit code of the run.
set -uo pipefail

split() { mapfile -d '' -t words < <(xargs -r printf '%s\0' <<<"$1"); }

mkdir -p "$REPORTS"
flag=--
[ "$RUNNER_OF_TESTS" != pytest ] || flag=--seatrial-
options=()
[ -z "$AGAINST" ] || options+=("${flag}against" "$AGAINST")
[ -z "$AGENT" ] || options+=("${flag}agent" "$AGENT")
for report in github "html=$REPORTS/report.html" "json=$REPORTS/results.json" "comment=$REPORTS/comment.md"; do
  options+=("${flag}report" "$report")
done
split "$ARGS"; options+=(${words[@]+"${words[@]}"})
split "$PATHS"; paths=(${words[@]+"${words[@]}"})

if [ "$RUNNER_OF_TESTS" = pytest ]; then
  command=(python -m pytest --junit-xml "$REPORTS/junit.xml" "${options[@]}" ${paths[@]+"${paths[@]}"})
else
  command=(seatrial run --report "junit=$REPORTS/junit.xml" "${options[@]}" -- ${paths[@]+"${paths[@]}"})
fi
"${command[@]}" 2> >(tee "$REPORTS/stderr.txt" >&2)
code=$?
wait

case $code in
  0) verdict=passed ;;
  1) verdict=failed ;;
  3) verdict=undecided ;;
  *) verdict=error ;;
esac
python - "$REPORTS" "$code" "$verdict" >> "$GITHUB_OUTPUT" <<'PYTHON'
import json, sys
from pathlib import Path

reports, code, verdict = sys.argv[1:]
try:
    results = json.loads(Path(reports, "results.json").read_text("utf-8"))
except FileNotFoundError:  # a mistake in files or flags: nothing was run
    results = {"run": {"id": ""}, "totals": {"passed_count": 0, "total_executions": 0}}
    said = Path(reports, "stderr.txt").read_text("utf-8", "replace").strip()[-5_000:]
    fence = "`" * 8
    Path(reports, "comment.md").write_text(f"## 💥 Nothing was run (exit code {code})\n\n{fence}\n{said}\n{fence}\n", "utf-8")
    verdict = "error"
print(f"exit-code={code}")
print(f"verdict={verdict}")
print(f"run={results['run']['id']}")
print(f"passed-trials={results['totals']['passed_count']}")
print(f"trials={results['totals']['total_executions']}")
print(f"reports={reports}")
PYTHON
rm -f "$REPORTS/stderr.txt"
