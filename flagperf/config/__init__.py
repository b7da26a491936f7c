"""Overrides and YAML → RunConfig: composed by Hydra, checked, resolved and typed.

Nothing here reaches a host or imports a framework.
"""
