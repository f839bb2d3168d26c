#!/usr/bin/env bash
# Lets agents, switches, controllers and addresses fail while guests ping each other and a TCP connection moves bytes,
# on Open vSwitch and on netlink, and reports the lost pings of each event.
#   sudo tests/chaos/run.sh [--short|--long] [--docs] [PYTEST ARGUMENT...]
# --short  (as without) small counts, generous times: what tests/run.sh has of it
# --long   full counts, every named crash point by itself, and the times that are promised; about an hour, and it wants
#          the machine to itself
# --docs   write the pictures and the section "What was measured" of docs/restart.md from this run
# The rows of the report go to chaos.jsonl in the current directory. Exit status: pytest's.
set -uo pipefail

case ${1:-} in
-h | --help) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
report=$PWD/chaos.jsonl
bound=1200
selection=(-m "not long")
docs=
while :; do
    case ${1:-} in
    --short) ;;
    --long)
        bound=10800
        selection=(--long)
        export ACA_LONG=1
        ;;
    --docs) docs=$root/docs ;;
    *) break ;;
    esac
    shift
done

bash "$root/deploy/setup.sh" || exit
cd "$root" || exit
export PYTHONPATH=$root ACA_CHAOS_REPORT=$report
rm -f "$report"
# SIGINT first: pytest then still takes down the networks that its tests have made.
timeout --foreground --signal=INT --kill-after=60 "$bound" \
    .venv/bin/python -m pytest tests/chaos "${selection[@]}" "$@"
status=$?
if [ -n "$docs" ] && [ -s "$report" ]; then .venv/bin/python -m tests.chaos "$report" "$docs" >/dev/null; fi
exit "$status"
