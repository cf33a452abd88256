#!/usr/bin/env bash
# Installs Seatrial and the requirements of the project into the Python on the PATH, with uv if it is there.
set -euo pipefail

if command -v uv >/dev/null; then
  install=(uv pip install --python "$(command -v python)")
else
  install=(python -m pip install --disable-pip-version-check --quiet)
fi

wanted=("$SEATRIAL_REQUIREMENT")
[ "$RUNNER_OF_TESTS" != pytest ] || wanted+=(pytest)
if [ "$REQUIREMENTS" != auto ]; then
  # xargs splits at spaces and respects quotes, without evaluating anything.
  mapfile -d '' -t given < <(xargs -r printf '%s\0' <<<"$REQUIREMENTS")
  wanted+=(${given[@]+"${given[@]}"})
elif [ -f requirements.txt ]; then
  wanted+=(-r requirements.txt)
fi

# In one call, so that the versions fit together.
if [ "$REQUIREMENTS" != auto ] || ! grep -Eqs '^\[(project|build-system)\]' pyproject.toml; then
  "${install[@]}" "${wanted[@]}"
elif ! "${install[@]}" "${wanted[@]}" .; then
  echo "::warning title=seatrial::the project cannot be installed as a package. Only its dependencies are installed."
  mapfile -t dependencies < <(python - <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file).get("project", {}).get("dependencies", []), sep="\n")
PYTHON
  )
  "${install[@]}" "${wanted[@]}" ${dependencies[@]+"${dependencies[@]}"}
fi
