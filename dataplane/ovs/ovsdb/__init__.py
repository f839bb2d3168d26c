"""The OVSDB side of the Open vSwitch data plane: one bridge, its tunnels and its devices.

`client.Ovsdb` is the way in. `model` holds the values it takes and gives, `requests` and `operations` say what to
send (pure), `mirror` follows the database, `transactor` groups requests into transactions, `link` is one connection.
"""

from dataplane.ovs.ovsdb.client import Ovsdb
from dataplane.ovs.ovsdb.model import (
    BridgeSpec,
    BridgeState,
    Device,
    OvsdbError,
    OvsdbUnavailableError,
    Tunnel,
)

__all__ = ["BridgeSpec", "BridgeState", "Device", "Ovsdb", "OvsdbError", "OvsdbUnavailableError", "Tunnel"]
