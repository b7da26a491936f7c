"""The docker engine of a host: its daemon, images and containers, through a forwarded socket.

`flagperf.plan` decides the contents of a container.
"""
