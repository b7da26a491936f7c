"""Acme's library: it wants to be found by a variable, which environment.sh sets."""

import os

if os.environ.get("ACME_LIBRARY") != "on":
    raise ImportError("ACME_LIBRARY is not set: source environment.sh")
