"""A case's own writer of data, in the training environment; for `flagperf data`:

    python -m flagperf.trainer.write_data config.yaml sample FOLDER
    python -m flagperf.trainer.write_data config.yaml prepare SOURCE FOLDER

Progress goes to standard error. Exit status 2 where the error says what the user has to mend.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import yaml

from flagperf.errors import FlagperfError
from flagperf.trainer.components import component
from flagperf.trainer.sample_data import write_sample_data


def main(config_file: str, what: str, *paths: str) -> None:
    """Write sample data into a folder, or convert a source into it."""
    config = yaml.safe_load(Path(config_file).read_text(encoding="utf-8"))
    logging.basicConfig(
        level=config["log_level"].upper(), format="%(asctime)s %(message)s", datefmt="%H:%M:%S", force=True
    )
    try:
        if what == "sample":
            write_sample_data(config, *map(Path, paths))
        else:
            component(config["data"], "prepare", *map(Path, paths))
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
