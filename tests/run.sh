#!/usr/bin/env bash
# Installs what is missing, then runs every check: ruff, mypy, pytest.
#   sudo tests/run.sh [--long] [PYTEST ARGUMENT...]
# --long includes the tests marked "long" with their full counts. All checks run even if one fails; the exit status
# is that of the first that failed. Bounded to 20 minutes, with --long to 80. Two workers share the tests; with
# "-n 0" there is one process, as debuggers want it.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

bound=1200
selection=(-m "not long")
if [ "${1:-}" = --long ]; then
    shift
    bound=4800
    selection=(--long)
    export ACA_LONG=1
fi

status=0
step() { # NAME COMMAND...
    local name=$1 left=$((bound - SECONDS)) result=124
    shift
    printf '\n== %s\n' "$name"
    # SIGINT first: pytest then still takes down the networks that its tests have made.
    if [ "$left" -gt 0 ]; then
        timeout --foreground --signal=INT --kill-after=60 "$left" "$@"
        result=$?
    fi
    if [ "$result" -eq 124 ] || [ "$result" -eq 137 ]; then
        printf '== %s: stopped, the time for all checks (%s s) was over\n' "$name" "$bound"
    elif [ "$result" -ne 0 ]; then
        printf '== %s: failed with status %s\n' "$name" "$result"
    fi
    if [ "$status" -eq 0 ]; then status=$result; fi
    return "$result"
}

step setup bash deploy/setup.sh || exit "$status"
step "ruff check" .venv/bin/ruff check
step mypy .venv/bin/mypy

report=$(mktemp) || exit 1
trap 'rm -f "$report"' EXIT
step pytest .venv/bin/python -m pytest -n 2 "${selection[@]}" --junitxml="$report" "$@"

printf '\n'
.venv/bin/python - "$report" <<'PYTHON'
import sys
from xml.etree import ElementTree

try:
    suites = list(ElementTree.parse(sys.argv[1]).iter("testsuite"))
except ElementTree.ParseError:
    sys.exit("tests: no result")  # pytest did not get as far as its report
total, failed, errors, skipped = (
    sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
)
print(f"tests: {total - failed - errors - skipped} passed, {failed + errors} failed, {skipped} skipped")
PYTHON
exit "$status"
