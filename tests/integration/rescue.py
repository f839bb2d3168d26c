"""An agent on one host that programs the switch of another."""

from __future__ import annotations

from typing import Any

from dataplane.ovs.remote import TlsFiles
from tests.integration.certificates import Pki
from tests.lab import AgentProcess, Host
from tests.lab.agent import laid_over

DATABASE_PORT = 6640
OPENFLOW_PORT = 6653


def prepare(host: Host, pki: Pki) -> None:
    """What an operator does on a host that others may have to stand in for (docs/rescue.md)."""
    own = pki.switches.issue(host.name)
    host.vsctl("set-ssl", str(own.key), str(own.certificate), str(pki.agents.certificate))
    target = f'target="pssl:{DATABASE_PORT}:{host.underlay_ip}"'
    host.vsctl("--", "--id=@m", "create", "Manager", target, "--", "add", "Open_vSwitch", ".", "manager_options", "@m")


class Neighbour:
    """The place for a rescue agent: processes and sockets are on `beside`, what is programmed is `host`."""

    def __init__(self, host: Host, beside: Host) -> None:
        self._beside = beside
        self.name = f"{host.name}-by-{beside.name}"
        self.directory = beside.directory / "rescue"
        self.directory.mkdir()
        self.namespace = beside.namespace
        self.underlay_ip = host.underlay_ip
        self.dataplane = "ovs"
        self.has_ovs = True
        self.bridge = host.bridge
        self.grpc_target = f"unix:{self.directory}/grpc.sock"
        self.admin_socket = self.directory / "admin.sock"
        self.db_socket = f"ssl:{host.underlay_ip}:{DATABASE_PORT}"

    def owns(self, agent: AgentProcess) -> None:
        self._beside.owns(agent)

    def agent(self, tls: TlsFiles, **ovs: str) -> AgentProcess:
        """A started agent; `ovs` are settings of dataplane.ovs that differ."""
        settings: dict[str, Any] = {
            "openflow": f"ssl:{self.underlay_ip}:{OPENFLOW_PORT}",
            "tls_ca": str(tls.ca),
            "tls_certificate": str(tls.certificate),
            "tls_key": str(tls.key),
        }
        made = AgentProcess(self, {"dataplane": {"ovs": laid_over(settings, ovs)}})
        made.start()
        return made
