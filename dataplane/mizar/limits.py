"""Bounds of the transit daemon: what the client refuses to go over, and what the daemon keeps at most."""

from typing import Final

INTERFACE_NAME_BYTES: Final = 20
"""XDR bound of interface names. The kernel's own names are at most 15 bytes."""
PATH_BYTES: Final = 256
"""XDR bound of program and capture file paths."""
ARRAY_ON_WIRE: Final = 256
"""XDR bound of address arrays: what a reply may hold."""
ARRAY_STORED: Final = 128
"""Routers, switches or remotes that the daemon keeps per entry. More are cut off, dropped with the entry, or (in agent
metadata) written over other memory, so that more are never sent."""

HOSTED_ENDPOINTS: Final = 127
"""Endpoints with an interface on one host: 128 slots, of which the transit interface takes one."""
ENDPOINTS: Final = 65_537
"""Per transit interface, substrate entries and hosted ones together."""
NETWORKS: Final = 16_385
VPCS: Final = 8_192
PORTS: Final = 65_536
AGENT_ENDPOINTS: Final = 4_096
PACKET_METADATA: Final = 4_096
ENFORCEMENTS: Final = 1_024
"""Per direction."""
POLICIES: Final = 64
"""One bit of the mask each."""
INTERFACE_NAMES_PER_LIFE: Final = 3_000
"""About as many different interface names does one daemon remember, gone ones included."""
VNI_BITS: Final = 24
"""What of a tunnel id travels in a packet. The daemon takes larger ids, for which no traffic then works."""
