"""A checkout in FlagPerf's form, written for the tests: two vendors, one of them strange to flagperf."""

from __future__ import annotations

from pathlib import Path

CLUSTER_CONF = """\
'''Cluster configs'''
HOSTS = ["10.1.2.2", "10.1.2.3"]
HOSTS_PORTS = ["2222"]
MASTER_PORT = "29501"
SSH_PORT = "2200"
"""
TEST_CONF = """\
'''Test Configs'''
VENDOR = "acme"
ACCE_CONTAINER_OPT = " --device=/dev/acme0 -v /opt/acme/:/opt/acme/:ro --group-add video" + " --env ACME=all --odd"
ACCE_VISIBLE_DEVICE_ENV_NAME = "ACME_VISIBLE_DEVICES"
PIP_SOURCE = "https://example.org/simple"
FLAGPERF_PATH = "/home/FlagPerf/training"
FLAGPERF_LOG_PATH = FLAGPERF_PATH + "/result/"
FLAGPERF_LOG_LEVEL = 'debug'
SHM_SIZE = "32G"
CLEAR_CACHES = True
CASES = {
    "resnet50:pytorch_2.1:A1:2:4:3": "/data/imagenet/",
    "resnet50:pytorch_2.1:A1:1:4:1": "/data/imagenet/",
    "bert:paddle:A1:1:8:1": "/data/bert",
    "llama3_8B:megatron:A1:1:8:1": "/data/llama",
    "resnet50:pytorch:A1:1": "/data/imagenet",
    "vit:pytorch:A100:1:8:1": "/data/imagenet",
}
"""
BASE = """\
# Required parameters
vendor: str = None
data_dir: str = None
name: str = "resnet50"
cudnn_deterministic: bool = True
lr: float = 0.1
weight_decay: float = 1e-4
momentum: float = 0.8
train_batch_size: int = 32
eval_batch_size: int = 32
target_acc1: float = 75.5
max_epoch: int = 100
fp16 = False
num_workers: int = 3
seed: int = 7
model_odd = [1, 2]
"""
CONFIG = """\
from config_common import *
import os

lr = 0.05 * 8
train_batch_size = 128
eval_batch_size = train_batch_size
fp16: bool = True
seed = None
ddp_type: str = "native"
made_up = {"a": 1}
num_workers = int(os.environ["WORKERS"])
open(PLANTED, "w").write("executed")
"""
COMMON = """\
vendor = "acme"
dist_backend = "accl"
weight_decay = 1e-4
log_freq = 10
"""
ENVIRONMENT = """\
# Export variables
set -x
export ACME_MODE=fast
export ACME_ARGS="-L O0"   # options
export ACME_HOME=$HOME/acme
if [ -f /opt/acme/env.sh ]; then
    source /opt/acme/env.sh
fi
"""
CASE = "benchmarks/resnet50/pytorch/config"
ACME = "acme/resnet50-pytorch"
TREE = {
    "run_benchmarks/config/cluster_conf.py": CLUSTER_CONF,
    "run_benchmarks/config/test_conf.py": TEST_CONF,
    f"{CASE}/__init__.py": "from ._base import *\nfrom .mutable_params import mutable_params\n",
    f"{CASE}/_base.py": BASE,
    f"{CASE}/mutable_params.py": "mutable_params = ['lr', 'train_batch_size', 'fp16']\nmutable_params += ['seed']\n",
    f"{ACME}/config/config_A1x2x4.py": CONFIG,
    f"{ACME}/config/config_common.py": COMMON,
    f"{ACME}/config/config_A1x2x8.example": "lr = 1\n",
    f"{ACME}/config/environment_variables.sh": ENVIRONMENT,
    f"{ACME}/config/requirements.txt": "numpy>=1.15.4\n# a comment\nacme-kernels  # theirs\n",
    f"{ACME}/extern/converter.py": "raise RuntimeError\n",
    "acme/llama3_8B-megatron/config/config_A1x1x8.py": "lr = 1e-4\n",
    "acme/vit-pytorch/config/config_A1x1x8py": "lr = 1e-4\n",
    "iluvatar/bert-paddle/config/config_BI-V100x1x8.py": "lr = 1e-4\n",
    "nvidia/bert-pytorch/config/config_A100x1x8.py": "gradient_accumulation_steps = 4\nmax_steps = 30000\n",
}


def write_tree(folder: Path) -> Path:
    """Write it below the folder, as FlagPerf's `training`; returns the folder."""
    for name, text in TREE.items():
        path = folder / "training" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
