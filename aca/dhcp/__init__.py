"""DHCP for the guests of this host; `respond` is pure: a guest's packet in, the answer out."""

from aca.dhcp.binding import Binding, Reply, option_errors
from aca.dhcp.options import LEASE_FOREVER
from aca.dhcp.responder import respond

__all__ = ["LEASE_FOREVER", "Binding", "Reply", "option_errors", "respond"]
