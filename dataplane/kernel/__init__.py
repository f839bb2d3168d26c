"""The Linux kernel as more than one part of the data planes speaks to it: netlink sockets, rtnetlink, namespaces."""
