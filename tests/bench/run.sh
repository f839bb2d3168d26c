#!/usr/bin/env bash
# Measures the agent on this machine: real gRPC, the real agent process, Open vSwitch in user space.
#   sudo tests/bench/run.sh [NAME...]     all benches but the long ones, or those named
#   tests/bench/run.sh --list             their names; --help: this text
# ACA_LONG=1 adds the long ones. Shows progress, then a table, and writes one JSON line per figure to bench.jsonl in
# the current directory: name, value, unit, reference, ratio (value / reference), load (average over 1 minute).
# Ours and the reference are measured in the same run; there are no limits here that could fail on a busy machine.
# Exit status: 0 all measured; 1 a bench failed; 2 wrong usage, or not possible here.
set -euo pipefail

case ${1:-} in
-h | --help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bash "$root/deploy/setup.sh"
PYTHONPATH=$root exec "$root/.venv/bin/python" -m tests.bench "$@"
