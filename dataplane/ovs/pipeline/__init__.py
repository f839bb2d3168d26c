"""The OpenFlow pipeline: pure functions from wanted values to flows. No sockets, no state."""
