"""Settings of the Open vSwitch data plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from aca.settingtypes import OptionalPath, OptionalRemote, Remote, Section, UdpPort, check_device_name


class OvsDataPlaneSettings(Section):
    """Open vSwitch"""

    run_directory: Path = Field(
        default=Path("/var/run/openvswitch"), description="Where the switch keeps its management sockets (*.mgmt)."
    )
    database: Remote = Field(
        default="unix:/var/run/openvswitch/db.sock",
        description="The switch's database: unix:PATH, tcp:ADDRESS:PORT or ssl:ADDRESS:PORT. At an address that is no "
        "loopback address it is another host's (docs/rescue.md).",
    )
    openflow: OptionalRemote = Field(
        default=None, description="Where another host's switch is to listen for OpenFlow: ssl:ADDRESS:PORT or "
        "tcp:ADDRESS:PORT.", json_schema_extra={"shown_default": "the management socket in run_directory"},
    )
    tls_ca: OptionalPath = Field(
        default=None, description="PEM file of the CA that the switch's certificates must be from, for ssl:.",
        json_schema_extra={"shown_default": "none"},
    )
    tls_certificate: OptionalPath = Field(
        default=None, description="PEM file of the certificate that the agent shows the switch, for ssl:.",
        json_schema_extra={"shown_default": "none"},
    )
    tls_key: OptionalPath = Field(
        default=None, description="PEM file with its key, without a password.",
        json_schema_extra={"shown_default": "none"},
    )
    tls_peer_name: str = Field(
        default="", description="Name or address that the switch's certificates must be for; those of ovs-pki are for "
        "none.", json_schema_extra={"shown_default": "any"},
    )
    bridge: Annotated[str, AfterValidator(check_device_name)] = Field(
        default="br-int", description="Integration bridge; made if missing."
    )
    datapath_type: Literal["system", "netdev"] = Field(
        default="system", description="'system': in the kernel; 'netdev': in user space."
    )
    vxlan_port: UdpPort = Field(default=4789, description="UDP port of VXLAN tunnels.")
    geneve_port: UdpPort = Field(default=6081, description="UDP port of Geneve tunnels.")
