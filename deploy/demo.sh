#!/usr/bin/env bash
# Shows the agent at work: two hosts on this machine, two VPCs, three subnets, a router, six guests.
#   sudo deploy/demo.sh [--dataplane ovs|netlink|mixed] [--no-setup] [--keep] [--goalstates DIRECTORY]
#   sudo deploy/demo.sh --clean [PREFIX...]
# --dataplane what the hosts have: ovs, each an Open vSwitch of its own; netlink, none, which needs Open vSwitch
#             installed nowhere; mixed, one of either kind
# --no-setup  install nothing, use .venv (or the Python named by PYTHON) as it is
# --keep      leave the network running and say how to use it; --clean removes it later
#             (all networks that were left running, or those named)
# --goalstates DIRECTORY  show these, files NAME.HOST.v1.txtpb and NAME.HOST.v2.txtpb for hosts h1 and h2
# Exit status: 0 all is as it must be; 1 something is not; 2 not possible here; 128 + signal number when stopped.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
die() { printf 'demo: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '3s/^# */usage: /p' "${BASH_SOURCE[0]}" >&2; }

setup=yes
setup_arguments=()
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --no-setup) setup= ;;
    --clean)
        setup=
        arguments=("$@")
        break
        ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --keep) arguments+=(--keep) ;;
    --dataplane)
        case ${2:-} in
        netlink) setup_arguments=(--without-ovs) ;;
        ovs | mixed) setup_arguments=() ;;
        *)
            usage
            die "--dataplane is ovs, netlink or mixed, not '${2:-}'"
            ;;
        esac
        arguments+=(--dataplane "$2")
        shift
        ;;
    --goalstates)
        [ -d "${2:-}" ] || die "--goalstates needs a directory"
        arguments+=(--goalstates "$(realpath "$2")")
        shift
        ;;
    *) die "unknown argument $1; see --help" ;;
    esac
    shift
done

[ "$(id -u)" -eq 0 ] || die "needs root: sudo deploy/demo.sh"
if [ -n "$setup" ]; then bash "$root/deploy/setup.sh" "${setup_arguments[@]}"; fi
python=${PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || die "no $python: run deploy/setup.sh first, or leave out --no-setup"

cd "$root"
exec "$python" -m deploy.demo "${arguments[@]}"
