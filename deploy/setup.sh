#!/usr/bin/env bash
# Prepares a checkout: installs the system packages that are missing (root only for this) and makes .venv with the
# pinned Python packages and the project. For Debian 12 and later and Ubuntu 22.04 and later. Run again at will:
# what is already there is not touched. Starts and stops no service.
#   deploy/setup.sh [--without-ovs] [--without-kafka]
# --without-ovs    do not install Open vSwitch, for hosts and demonstrations that do without
# --without-kafka  install no Java and Maven, and fetch no Apache Kafka: brokers are for tests and demonstrations only
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
requirements=$root/deploy/requirements.txt
packages=(faketime iproute2 iputils-ping iputils-arping ethtool tcpdump traceroute udhcpc procps bc nftables)
policy=/usr/sbin/policy-rc.d
policy_is_ours=

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

with_ovs=yes
with_kafka=yes
for argument in "$@"; do
    case $argument in
    --without-ovs) with_ovs= ;;
    --without-kafka) with_kafka= ;;
    *) die "unknown argument $argument" ;;
    esac
done
if [ -n "$with_ovs" ]; then packages+=(openvswitch-switch); fi
if [ -n "$with_kafka" ]; then packages+=(openssl ca-certificates java maven); fi

clean_up() {
    if [ -n "$policy_is_ours" ]; then rm -f "$policy"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Asks the package manager's hooks to start no service while packages are unpacked: the lab runs its own switches,
# and an operator decides about the system's. A policy that is already there stays in force.
hold_services() {
    # Left by a run that was killed.
    if grep -qs 'by deploy/setup.sh' "$policy"; then policy_is_ours=yes; fi
    if [ -n "$policy_is_ours" ] || [ -e "$policy" ] || [ -L "$policy" ]; then return; fi
    policy_is_ours=yes
    printf '#!/bin/sh\n# Temporary, by deploy/setup.sh: no service is started.\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

apt_updated=
install_packages() {
    [ "$(id -u)" -eq 0 ] || die "these packages are missing, run as root to install them: $*"
    command -v apt-get >/dev/null || die "no apt-get here; install by hand: $*"
    hold_services
    if [ -z "$apt_updated" ]; then
        say "updating the package lists"
        apt_get 300 update -qq
        apt_updated=yes
    fi
    local package names=()
    for package in "$@"; do
        if [ "$package" = java ]; then package=$(java_package); fi
        names+=("$package")
    done
    say "installing ${names[*]}"
    apt_get 900 install -qq --no-install-recommends "${names[@]}" >/dev/null
}

# Prints the oldest Java that will do and that is to be had here; without it Maven would bring a larger one.
java_package() {
    local version
    for version in 17 21 25; do
        if apt-cache show "openjdk-$version-jre-headless" >/dev/null 2>&1; then break; fi
    done
    printf 'openjdk-%s-jre-headless\n' "$version"
}

apt_get() { # SECONDS ARGUMENT...
    local seconds=$1
    shift
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 timeout --foreground "$seconds" \
        apt-get -y -o DPkg::Lock::Timeout=240 -o Dpkg::Use-Pty=0 "$@" </dev/null 9<&-
}

has_commands() { # COMMAND...
    local name
    for name in "$@"; do command -v "$name" >/dev/null || return 1; done
}

has_java() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') && [ "${version:-0}" -ge 17 ]
}

is_installed() { # PACKAGE
    case $1 in
    # May have been built from source.
    openvswitch-switch) if has_commands ovs-vswitchd ovsdb-server ovsdb-tool ovs-vsctl ovs-ofctl; then return; fi ;;
    # May have come from elsewhere; java is no package, see java_package.
    java)
        has_java
        return
        ;;
    maven) if has_commands mvn; then return; fi ;;
    esac
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = "install ok installed" ]
}

# Prints the path of a Python that the pinned packages are made for and that can make virtual environments.
find_python() {
    local name path
    for name in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        path=$(command -v "$name") || continue
        if "$path" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
            >/dev/null 2>&1; then
            printf '%s\n' "$path"
            return
        fi
    done
    return 1
}

# Two set-ups of one checkout would break each other's .venv.
exec 9<"${BASH_SOURCE[0]}"
flock -w 900 9 || die "another set-up of this checkout has been running for 15 minutes"

missing=()
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done
python=$(find_python) || missing+=(python3 python3-venv)
if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}"; fi

if [ -z "$python" ] && ! python=$(find_python); then
    # Ubuntu 22.04: its python3 is too old.
    install_packages python3.11 python3.11-venv
    python=$(find_python) || die "no Python 3.11, 3.12 or 3.13 found"
fi

if [ -n "$with_kafka" ]; then "$root/tests/kafka/fetch.sh" 9<&-; fi

# Everything that .venv depends on, the place of the checkout included: scripts and the editable install name it.
stamp=$(
    {
        printf '%s\n' "$root"
        cat "$requirements" "$root/pyproject.toml" "${BASH_SOURCE[0]}"
    } | sha256sum | cut -d' ' -f1
)
if [ "$(cat "$venv/.setup-stamp" 2>/dev/null)" = "$stamp" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

pip() {
    timeout --foreground 900 "$venv/bin/python" -m pip --disable-pip-version-check --no-input --quiet \
        --timeout 60 --retries 5 "$@" </dev/null
}

say "making .venv with $("$python" --version)"
rm -rf "$venv"
"$python" -m venv "$venv"
PIP_ROOT_USER_ACTION=ignore pip install -r "$requirements"
PIP_ROOT_USER_ACTION=ignore pip install --no-deps --no-build-isolation --editable "$root"
printf '%s\n' "$stamp" >"$venv/.setup-stamp"
say "ready"
