"""Unknown destinations: the controller is asked, the packets wait (docs/on-demand.md).

`questions` decides, pure; `inquiry` turns a packet into what is asked; `fair` is the queue in front; `service` is the
thread that does it.
"""
