"""The arguments of the ModelZoo's interface."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def parse_args(model: str, devices: Sequence[str]) -> argparse.Namespace:
    """Read the command line. None means: not given, so that the case's own value counts."""
    parser = argparse.ArgumentParser(description=f"Trains {model} with flagperf.")
    parser.add_argument("--model_name", default=model, choices=[model], help="the model of this folder")
    parser.add_argument("--batch_size", "--bs", type=int, help="samples of one device and step")
    parser.add_argument("--epoch", type=int, help="most passes over the training data")
    parser.add_argument("--step", type=int, help="most steps, for a short run that logs each of them")
    parser.add_argument("--dataset_path", default="sample", help="folder of the data; sample: generated, small")
    parser.add_argument("--lr", type=float, help="learning rate")
    parser.add_argument("--device", default=devices[0], choices=devices, help="kind of device to train on")
    parser.add_argument("--autocast", type=_switch, help="True: mixed precision, False: fp32")
    parser.add_argument("--nproc_per_node", type=int, default=1, help="devices of each machine; a card has four")
    parser.add_argument("--nnode", "--nnodes", type=int, default=1, help="machines")
    parser.add_argument("--node_rank", type=int, default=0, help="number of this machine, from 0")
    parser.add_argument("--master_addr", default="127.0.0.1", help="address of machine 0")
    parser.add_argument("--master_port", type=int, default=29500, help="free port of machine 0")
    return parser.parse_args()


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return text.lower() == "true"
