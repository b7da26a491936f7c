"""A model folder that flagperf did not write. Its script logs as tcap_dllogger's README shows, and trains nothing."""

from __future__ import annotations

from pathlib import Path

ARGUMENT = """\
import argparse


def parse_args():
    parser = argparse.ArgumentParser()
    for_all = parser.add_argument_group("all")
    parser.add_argument("--model_name", default="mlp")
    parser.add_argument("--batch_size", "--bs", type=int, default=8)
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--step", type=int, default=-1)
    parser.add_argument("--dataset_path")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--autocast", default="True")
    parser.add_argument("--nproc_per_node", type=int, default=1)
    parser.add_argument("--nnode", type=int, default=1)
    parser.add_argument("--node_rank", type=int, default=0)
    for_all.add_argument("--warm_up", type=float, default=0.0)
    return parser.parse_args()
"""
RUN = """\
import json

from argument import parse_args
from formate_cmd import show


def line(kind, **body):
    times = {"timestamp": "1.0", "datetime": "2026-01-01 00:00:00", "elapsedtime": "0.0"}
    log.write("TCAPPDLL " + json.dumps({**times, "type": kind, **body}) + "\\n")


def metadata(metric, unit, goal, stage):
    line("METADATA", metric=metric, metadata={"unit": unit, "format": ":.3f", "GOAL": goal, "STAGE": stage})


def values(step, data):
    line("LOG", step=step, data=str({key: str(value) for key, value in data.items()}))


args = parse_args()
show(args)
with open("dlloger_example.json", "w") as log:
    log.write('INFO {"type": "INFO", "data": "start training"}\\n')
    metadata("train.loss", "", "MINIMIZE", "TRAIN")
    metadata("train.ips", "imgs/s", "MAXIMIZE", "TRAIN")
    metadata("val.top1", "", "MAXIMIZE", "VALID")
    for step in range(args.step):
        values([0, step], {"rank": 0, "train.loss": 1 / (1 + step), "train.ips": 30.0, "data.shape": [16, 3]})
    values([0, args.step], {"val.top1": 0.54})
"""
README = """\
# MLP

## 1. 模型概述
多层感知机，代码来源：https://example.org/mlp

## 2. 快速开始
### 2.1 获取数据集
从 https://example.org/data 下载。
### 2.2 环境准备
docker pull image
### 2.3 启动训练
```
cd run_scripts
python run_mlp.py --model_name mlp --step 10
```
### 2.4 训练结果
| 加速卡数量 | 精度 |
| --- | --- |
| 1 | 97.1 % |
"""
ENTRY = """\
- case_name: somebody
  desc:
    run_dir: PyTorch/contrib/Classification/mlp
    run_file: run_scripts/run_mlp.py
  params:
    nnodes: 1
    nproc_per_node: 1
    batch_size: 4
    model_name: mlp
    dataset_path: /mnt/nvme/common/somebody/mlp
    step: 10
    epoch: 1
    lr: 0.1
    device: sdaa
    autocast: True
    others:
      warm_up: 0.1
"""
FILES = {
    "requirements.txt": "torchmetrics\n",
    "README.md": README,
    "run_scripts/README.md": (
        "# 参数\nmodel_name, batch_size, epoch, step, dataset_path, lr, device, autocast, nproc_per_node, nnode, "
        "node_rank\n"
    ),
    "run_scripts/argument.py": ARGUMENT,
    "run_scripts/formate_cmd.py": "def show(args):\n    print(args)\n",
    "run_scripts/run_mlp.py": RUN,
    "model.yaml": ENTRY,
}


def write(folder: Path, **changed: str | None) -> Path:
    """The folder "mlp"; keywords, with a dot for each slash, replace files or leave them out. Returns it."""
    for name, text in {**FILES, **changed}.items():
        if text is not None:
            path = folder / "mlp" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder / "mlp"
