"""OpenFlow 1.4 with the extensions of Open vSwitch: codec (``oxm``, ``actions``, ``messages``) and programmer."""
