"""The docker engine of a host: its daemon, images and containers, through a forwarded socket.

What a container is made of is decided in `flagperf.plan`.
"""
