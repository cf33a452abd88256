#!/usr/bin/env bash
# Installs Seatrial and the requirements of the project into the Python on the PATH, with uv if it is there.
set -euo pipefail

if command -v uv >/dev/null; then
  install=(uv pip install --python "$(command -v python)")
else
  install=(python -m pip install --disable-pip-version-check --quiet)
fi

requirements=()
if [ "$REQUIREMENTS" != auto ]; then
  # xargs splits at spaces and respects quotes, without evaluating anything.
  mapfile -d '' -t requirements < <(xargs -r printf '%s\0' <<<"$REQUIREMENTS")
elif grep -qs '^\[project\]' pyproject.toml; then
  requirements=(.)
elif [ -f requirements.txt ]; then
  requirements=(-r requirements.txt)
fi
[ "$RUNNER_OF_TESTS" != pytest ] || requirements+=(pytest)

# In one call, so that the versions fit together.
"${install[@]}" "$SEATRIAL_REQUIREMENT" ${requirements[@]+"${requirements[@]}"}
