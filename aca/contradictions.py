"""Settings that are right each by itself and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataplane.ovs.remote import Scheme, parse_remote

if TYPE_CHECKING:
    from aca.config import Settings


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it) for each."""
    if settings.dataplane.kind == "ovs":
        yield from _of_the_switch(settings)
    yield from settings.kafka.contradictions()
    ports, routers = settings.dataplane.port_namespace_prefix, settings.dataplane.netlink.namespace_prefix
    if settings.dataplane.kind == "netlink" and ports.startswith(routers):
        yield (
            "dataplane.port_namespace_prefix",
            f"must not begin with {routers!r}: that is how the names of the routers' namespaces begin "
            "(dataplane.netlink.namespace_prefix), and nothing else's",
        )


def _of_the_switch(settings: Settings) -> Iterator[tuple[str, str]]:
    ovs = settings.dataplane.ovs
    database = parse_remote(ovs.database)
    openflow = parse_remote(ovs.openflow) if ovs.openflow else None
    if Scheme.SSL in (database.scheme, openflow.scheme if openflow else None):
        for name in ("tls_ca", "tls_certificate", "tls_key"):
            if getattr(ovs, name) is None:
                yield (
                    f"dataplane.ovs.{name}",
                    "must be set: ssl: needs tls_ca, tls_certificate and tls_key, since both sides show a certificate",
                )
    if database.is_elsewhere and (openflow is None or not openflow.is_elsewhere):
        yield (
            "dataplane.ovs.openflow",
            f"must be ssl:ADDRESS:PORT or tcp:ADDRESS:PORT of the host whose database is at {database}: the bridge "
            "beside this agent is not the one to program (this host's own database is unix:PATH or at a loopback "
            "address)",
        )
    if openflow is not None and openflow.is_elsewhere and not database.is_elsewhere:
        yield (
            "dataplane.ovs.database",
            f"must be ssl:ADDRESS:PORT or tcp:ADDRESS:PORT of the host whose bridge is at {openflow}",
        )
    if not database.is_elsewhere:
        return
    if settings.dataplane.make_devices != "no":
        yield (
            "dataplane.make_devices",
            "must be \"no\": devices cannot be made on another host, which dataplane.ovs.database is on",
        )
    if settings.host.tunnel_interface is not None:
        yield (
            "host.tunnel_interface",
            "must not be set: it is on another host, as dataplane.ovs.database is; set host.tunnel_address",
        )
