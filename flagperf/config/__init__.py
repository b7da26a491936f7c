"""Overrides and YAML → JobConfig: composed by Hydra, checked, resolved and typed.

Nothing here reaches a host or imports a framework.
"""
