#!/usr/bin/env bash
# Accepts a run of the default branch that passed: later runs are tested against it.
set -euo pipefail

if [ "$EXIT_CODE" = 0 ] && [ "${GITHUB_EVENT_NAME:-}" != pull_request ] && [ "${GITHUB_REF_NAME:-}" = "$DEFAULT_BRANCH" ]; then
  seatrial baseline set "$RUN"
fi
