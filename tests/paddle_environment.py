"""PaddlePaddle lies in an environment of its own: tests run its code in processes of that one."""

from __future__ import annotations

from functools import partial

import framework_environment

run = partial(framework_environment.run, "paddle")
