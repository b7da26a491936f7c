"""flagperf approve: sign a bundle of others, as the vendor of its devices

usage: flagperf approve FILE.tar.zst key=FILE

Writes FILE.tar.zst.approval.json beside the bundle. flagperf verify and flagperf site read this file. The bundle does
not change. A bundle that flagperf verify does not accept is refused.

words:
  FILE.tar.zst  what flagperf export wrote
  key=FILE      an Ed25519 private key, as ssh-keygen or openssl make them

examples:
  flagperf approve run.tar.zst key=~/.ssh/id_ed25519

exit codes: 0, 2, 9
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from flagperf.bundle.apart import Refused, examine
from flagperf.bundle.approval import approve
from flagperf.bundle.archive import unpack
from flagperf.bundle.check import check_bundle
from flagperf.bundle.signature import key_id, private_key
from flagperf.cli.verify import NOT_AS_STATED
from flagperf.cli.words import expect, need, paths_and_options
from flagperf.run.console import print_unfolded
from flagperf.verify import check, objections


def main(options: argparse.Namespace) -> int:
    """Print the path of the approval and the id of the key, or why the bundle is not approved."""
    paths, values = paths_and_options("approve", options.arguments, ("key",))
    expect("approve", paths, 1, "one bundle")
    need("approve", ("key",), values)
    key = private_key(Path(values["key"]))
    (answer,) = examine(_against, paths)
    if isinstance(answer, Refused) and answer.error is not None:
        raise answer.error
    against = [answer.reason] if isinstance(answer, Refused) else answer
    if against:
        for sentence in ("not approved: the files of the bundle differ from its statement", *against):
            print_unfolded(Text(sentence, style="bold red"))
        return NOT_AS_STATED
    print_unfolded(Text(f"{approve(paths[0], key)}: approved by {key_id(key.public_key())}"))
    return 0


def _against(bundle: Path, folder: Path) -> list[str]:
    """What is wrong with a bundle, a sentence each."""
    run = unpack(bundle, folder)
    return [*check_bundle(run, None).wrong, *objections(check(run))]
