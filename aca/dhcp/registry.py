"""The DHCPv4 options by number: the format of the value and the names they go by.

Numbers and formats are those of the IANA registry of BOOTP vendor extensions and DHCP options. Each option has the
registry's name and those that the configuration languages of common servers use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aca.dhcp import values
from aca.dhcp.values import Parser

# Fields of the fixed part of the message, behind the last option number.
NEXT_SERVER = 256
SERVER_NAME = 257
BOOT_FILE_NAME = 258

LISTS: frozenset[Parser] = frozenset(
    (
        values.addresses,
        values.address_pairs,
        values.classless_routes,
        values.domain_list,
        values.unsigned16_list,
        values.datagram_size_list,
    )
)
"""Formats of which two values may be joined into one."""

PROTOCOL_OPTIONS = frozenset((0, 50, 52, 53, 54, 55, 56, 57, 61, 80, 82, 90, 118, 255))
"""Options that carry the protocol itself; a user's value would break the exchange."""


@dataclass(frozen=True, slots=True)
class OptionFormat:
    """One option: its number (0..258), how its text is encoded, and its first name."""

    code: int
    parse: Parser
    name: str


_TABLE: tuple[tuple[int, Parser, str], ...] = (
    (1, values.mask, "subnet-mask netmask"),
    (2, values.signed32, "time-offset"),
    (3, values.addresses, "router routers gateway default-router"),
    (4, values.addresses, "time-server time-servers"),
    (5, values.addresses, "name-server name-servers ien116-name-servers"),
    (6, values.addresses, "domain-name-servers domain-name-server domain-server dns-server dns-servers dns"),
    (7, values.addresses, "log-server log-servers syslog-server"),
    (8, values.addresses, "quotes-server quote-server cookie-servers cookie-server"),
    (9, values.addresses, "lpr-server lpr-servers"),
    (10, values.addresses, "impress-server impress-servers"),
    (11, values.addresses, "rlp-server resource-location-servers resource-location-server"),
    (12, values.host_name, "host-name hostname"),
    (13, values.unsigned16, "boot-file-size boot-size"),
    (14, values.text, "merit-dump merit-dump-file"),
    (15, values.domain_name, "domain-name domain"),
    (16, values.address, "swap-server"),
    (17, values.text, "root-path"),
    (18, values.text, "extensions-path extension-path extension-file"),
    (19, values.boolean, "ip-forwarding ip-forward-enable forward-on-off"),
    (20, values.boolean, "non-local-source-routing srcrte-on-off"),
    (21, values.address_pairs, "policy-filter"),
    (22, values.reassembly_size, "max-dgram-reassembly max-datagram-reassembly max-dg-assembly"),
    (23, values.time_to_live, "default-ip-ttl default-ttl"),
    (24, values.unsigned32, "path-mtu-aging-timeout mtu-timeout"),
    (25, values.datagram_size_list, "path-mtu-plateau-table mtu-plateau"),
    (26, values.datagram_size, "interface-mtu mtu mtu-interface"),
    (27, values.boolean, "all-subnets-local mtu-subnet"),
    (28, values.address, "broadcast-address broadcast"),
    (29, values.boolean, "perform-mask-discovery mask-discovery"),
    (30, values.boolean, "mask-supplier"),
    (31, values.boolean, "router-discovery"),
    (32, values.address, "router-solicitation-address router-solicitation router-request"),
    (33, values.address_pairs, "static-routes static-route"),
    (34, values.boolean, "trailer-encapsulation trailers"),
    (35, values.unsigned32, "arp-cache-timeout arp-timeout"),
    (36, values.boolean, "ieee802-3-encapsulation ethernet-encap ethernet"),
    (37, values.time_to_live, "default-tcp-ttl tcp-ttl"),
    (38, values.unsigned32, "tcp-keepalive-interval tcp-keepalive keepalive-time"),
    (39, values.boolean, "tcp-keepalive-garbage keepalive-data"),
    (40, values.text, "nis-domain"),
    (41, values.addresses, "nis-servers nis-server"),
    (42, values.addresses, "ntp-servers ntp-server ntp"),
    (43, values.binary, "vendor-encapsulated-options vendor-encap vendor-specific"),
    (44, values.addresses, "netbios-name-servers netbios-name-server netbios-name-srv netbios-ns wins-server"),
    (45, values.addresses, "netbios-dd-server netbios-dist-srv netbios-dd"),
    (46, values.unsigned8, "netbios-node-type netbios-nodetype"),
    (47, values.text, "netbios-scope"),
    (48, values.addresses, "font-servers x-window-font x-windows-fs"),
    (49, values.addresses, "x-display-manager x-window-manager x-windows-dm"),
    (51, values.duration, "dhcp-lease-time lease-time lease address-time"),
    (58, values.duration, "dhcp-renewal-time renewal-time t1"),
    (59, values.duration, "dhcp-rebinding-time rebinding-time t2"),
    (60, values.text, "vendor-class-identifier vendor-class class-id"),
    (62, values.text, "nwip-domain netware-ip-domain"),
    (63, values.binary, "nwip-suboptions netware-ip-option"),
    (64, values.text, "nisplus-domain nis+-domain nis-domain-name"),
    (65, values.addresses, "nisplus-servers nis+-server nis-server-addr"),
    (66, values.boot_text, "tftp-server-name tftp-server"),
    (67, values.boot_text, "bootfile-name bootfile boot-file boot-file-name"),
    (68, values.addresses, "mobile-ip-home-agent mobile-ip-home home-agent-addrs"),
    (69, values.addresses, "smtp-server smtp-servers"),
    (70, values.addresses, "pop-server pop3-server"),
    (71, values.addresses, "nntp-server"),
    (72, values.addresses, "www-server"),
    (73, values.addresses, "finger-server"),
    (74, values.addresses, "irc-server"),
    (75, values.addresses, "streettalk-server"),
    (76, values.addresses, "streettalk-directory-assistance-server stda-server"),
    (77, values.binary, "user-class"),
    (81, values.binary, "fqdn client-fqdn"),
    (85, values.addresses, "nds-servers"),
    (86, values.text, "nds-tree-name"),
    (87, values.text, "nds-context"),
    (88, values.domain_list, "bcms-controller-names"),
    (89, values.addresses, "bcms-controller-address"),
    (100, values.text, "pcode posix-timezone tz-posix"),
    (101, values.text, "tcode tzdb-timezone tz-database"),
    (108, values.duration, "ipv6-only-preferred v6-only-preferred ipv6-only"),
    (112, values.addresses, "netinfo-server-address netinfo-address"),
    (113, values.text, "netinfo-server-tag netinfo-tag"),
    (114, values.text, "captive-portal default-url v4-captive-portal"),
    (116, values.boolean, "auto-config"),
    (117, values.unsigned16_list, "name-service-search"),
    (119, values.domain_list, "domain-search domain-search-list domain-list"),
    (120, values.sip_servers, "sip-servers sip-server"),
    (
        121,
        values.classless_routes,
        "classless-static-route classless-static-routes classless-route rfc3442-classless-static-routes",
    ),
    (124, values.binary, "vivco vendor-id-class"),
    (125, values.binary, "vivso vendor-id-encap"),
    (136, values.addresses, "pana-agent"),
    (137, values.domain_name, "v4-lost"),
    (138, values.addresses, "capwap-ac-v4"),
    (150, values.addresses, "tftp-server-address tftp-server-addresses"),
    (208, values.binary, "pxelinux-magic"),
    (209, values.text, "configfile loader-configfile pxelinux-configfile"),
    (210, values.text, "path-prefix loader-pathprefix pxelinux-pathprefix"),
    (211, values.unsigned32, "reboot-time loader-reboottime pxelinux-reboottime"),
    (249, values.classless_routes, "ms-classless-static-route ms-classless-static-routes"),
    (252, values.text, "wpad wpad-url"),
    (NEXT_SERVER, values.address, "server-ip-address next-server siaddr"),
    (SERVER_NAME, values.boot_text, "server-name sname"),
    (BOOT_FILE_NAME, values.boot_text, "filename file"),
)
_BY_CODE: Mapping[int, OptionFormat] = MappingProxyType(
    {code: OptionFormat(code, parse, names.split()[0]) for code, parse, names in _TABLE}
)
_BY_NAME: Mapping[str, OptionFormat] = MappingProxyType(
    {name: _BY_CODE[code] for code, _, names in _TABLE for name in names.split()}
)
_PROTOCOL_NAMES: frozenset[str] = frozenset(
    (
        *("requested-address", "dhcp-requested-address", "option-overload", "dhcp-option-overload"),
        *("message-type", "dhcp-message-type", "server-identifier", "server-id", "dhcp-server-identifier"),
        *("parameter-request", "dhcp-parameter-request-list", "message", "dhcp-message"),
        *("max-message-size", "dhcp-max-message-size", "client-id", "dhcp-client-identifier", "rapid-commit"),
        *("agent-id", "relay-agent-information", "subnet-select", "subnet-selection"),
    )
)
_PREFIX = re.compile(r"^(?:(?:option|opt)[:\s]\s*|(?:dhcp-)?opt(?:ion)?[-_](?=[0-9]+$))", re.ASCII)
_WORD_BREAKS = re.compile(r"[\s_/]+")


def find_option(name: str) -> OptionFormat:
    """The option that a user's `name` means: a number 1..254 (`67`, `opt:67`, `option-67`) or a well-known name.

    Case does not matter; `_`, `/` and blanks count as `-`; `option:` in front is allowed.

    Raises ValueError, with the reason, if there is no such option or it is not for users to set.
    """
    word = _PREFIX.sub("", name.strip().lower(), count=1)
    word = _WORD_BREAKS.sub("-", word)
    if word.isdecimal() and word.isascii():
        code = int(word) if len(word) <= 3 else 256
        if not 0 <= code <= 255:
            raise ValueError("there is no option of that number")
        if code in PROTOCOL_OPTIONS:
            raise ValueError("this option belongs to the protocol and cannot be set")
        return _BY_CODE.get(code) or OptionFormat(code, values.inferred, str(code))
    found = _BY_NAME.get(word)
    if found is None:
        if word in _PROTOCOL_NAMES:
            raise ValueError("this option belongs to the protocol and cannot be set")
        raise ValueError("there is no option of that name")
    return found
