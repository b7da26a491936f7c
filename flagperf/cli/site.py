"""flagperf site: verify bundles, and make a website of their results

usage: flagperf site BUNDLES… into=DIR [keys=FILE] [refused=skip]

The site is a folder of static pages in English and Chinese, with the bundles for download and the figures that FlagPerf
publishes. It needs no server and no other host. If flagperf verify does not accept a bundle, the reason is printed and
no site is made.

words:
  BUNDLES…      files that flagperf export wrote, or folders with such files
  into=DIR      the folder of the site; an older site there is replaced
  keys=FILE     public keys with their owners, a line each: NAME ssh-ed25519 AAAA…; signatures and approvals are checked
                with them
  refused=skip  make the site of the other bundles; the exit code is 9 as well

examples:
  flagperf site run.tar.zst into=public
  flagperf site bundles into=public keys=vendors.keys refused=skip

exit codes: 0, 2, 9
"""

from __future__ import annotations

import argparse

from rich.text import Text

from flagperf.cli.verify import NOT_AS_STATED
from flagperf.cli.words import need, paths_and_options
from flagperf.errors import ConfigError
from flagperf.run.console import print_unfolded
from flagperf.user import user_path

SKIP = "skip"
MOST = 5  # reasons that are shown of a refused bundle


def main(options: argparse.Namespace) -> int:
    """Print the path of the site, and the bundles that were refused; the exit code is 9 where there are any."""
    from flagperf.bundle.keyring import read_keyring
    from flagperf.site.build import build

    paths, values = paths_and_options("site", options.arguments, ("into", "keys", "refused"))
    need("site", ("into",), values)
    if (given := values.get("refused", SKIP)) != SKIP:
        raise ConfigError("unknown value", key="refused", given=given, allowed=SKIP)
    keyring = read_keyring(user_path(values["keys"])) if "keys" in values else {}
    target = user_path(values["into"])
    built = build(paths, target, keyring, without_refused="refused" in values)
    for refusal in built.refusals:
        print_unfolded(Text(f"refused: {refusal.path}", style="bold red"))
        for reason in refusal.reasons[:MOST]:
            print_unfolded(Text(f"  {reason}", style="red"))
        if len(refusal.reasons) > MOST:
            print_unfolded(Text(f"  and {len(refusal.reasons) - MOST} more", style="red"))
    if built.pages:
        rows = sum(len(bundle.entries) for bundle in built.bundles)
        print_unfolded(Text(f"{target}/index.html: {rows} rows of {len(built.bundles)} bundles, {built.pages} pages"))
    else:
        print_unfolded(Text("no site was made; refused=skip makes the site of the other bundles"))
    return NOT_AS_STATED if built.refusals else 0
