#!/usr/bin/env bash
# Accepts a run of the default branch that passed: later runs are tested against it.
set -euo pipefail

# Other events, such as pull_request_target, may have the name of the default branch and the code of a pull request.
case "${GITHUB_EVENT_NAME:-}" in
  push | schedule | workflow_dispatch) ;;
  *) exit 0 ;;
esac
if [ "$EXIT_CODE" = 0 ] && [ "${GITHUB_REF_NAME:-}" = "$DEFAULT_BRANCH" ]; then
  seatrial baseline set "$RUN"
fi
