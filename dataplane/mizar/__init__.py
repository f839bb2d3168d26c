"""The data plane of hosts whose packets Mizar's XDP programs carry: its transit daemon, driven by ONC RPC."""
