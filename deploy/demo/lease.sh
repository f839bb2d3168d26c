#!/bin/sh
# What udhcpc runs in a guest: gives eth0 what the lease says. Unlike a system's own script it leaves the name servers
# of the machine alone, whose files a network namespace shares.
set -eu

case $1 in
deconfig)
    ip link set "$interface" up
    ip -4 addr flush dev "$interface"
    ;;
bound | renew)
    ip addr replace "$ip/$mask" dev "$interface"
    ip link set "$interface" mtu "${mtu:-1450}"
    # One default route is enough; the first router counts (RFC 2132, section 3.5).
    ip route replace default via "${router%% *}" dev "$interface"
    echo "lease: address $ip/$mask, router ${router:-none}, name server ${dns:-none}, mtu ${mtu:-not given}," \
        "for ${lease:-?} s from ${serverid:-?}"
    ;;
esac
