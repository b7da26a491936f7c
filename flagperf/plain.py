"""Text as people see it. What a rank or a host prints may hold anything: here it loses its power over a terminal.

The password of a URL is not shown either.
"""

from __future__ import annotations

import re

from flagperf.secret import without_logins

# Characters that steer a terminal (C0 but line end and tab, DEL, C1), or that change the order in which text is read;
# and what Python makes of bytes that are not UTF-8.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with each steering character written as its escape, such as \\x1b."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], without_logins(text))


def comment(text: str) -> str:
    """A text as comment lines of a shell, of YAML or of Python. A name with line breaks stays inside the comment."""
    return "\n".join(f"# {line}".rstrip() for line in plain(text).split("\n"))


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8. A word or path of bytes that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
