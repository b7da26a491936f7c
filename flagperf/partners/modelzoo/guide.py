"""The requirements of the ModelZoo's adaptation guide for a model folder, as data.

Source: the guide on adapting models for training, and the page on model.yaml beside it, in the public
github.com/Tecorigin/modelzoo.
"""

from __future__ import annotations

REQUIREMENTS, README, SCRIPTS = "requirements.txt", "README.md", "run_scripts"
ARGUMENT, FORMAT = "argument.py", "formate_cmd.py"
SCRIPT_READMES = ("README.md", "REAMDE.md")  # the guide's text has the first, its tree the second
ENTRY = "model.yaml"
ENTRY_IN_ZOO = "contrib/model_config/model.yaml"  # below the folder of a framework
FRAMEWORKS = {"pytorch": "PyTorch", "paddle": "PaddlePaddle"}  # ours → folder at the top of the ModelZoo

ASKED_ARGUMENTS = {  # source → arguments
    "the guide": ("model_name", "batch_size", "epoch", "step", "dataset_path", "lr", "device", "autocast"),
    "the guide, for DDP on one machine": ("nproc_per_node",),
    "the guide, for DDP on several machines": ("nnode", "node_rank"),
}
# The guide writes nnode, the page on model.yaml nnodes; the public models differ.
SPELLINGS = {"nnode": ("nnode", "nnodes"), "nnodes": ("nnodes", "nnode")}

PARAMS = (
    *("nnodes", "nproc_per_node", "batch_size", "model_name", "dataset_path"),
    *("step", "epoch", "lr", "device", "autocast"),
)  # parameters of an entry of model.yaml; none may be empty
OTHERS = "others"  # the key of further parameters

AREAS = {  # package of a case's code → folder of the ModelZoo
    "bert": "NLP",
    "bigtransfer": "Classification",
    "cpm": "NLP",
    "detection": "Detection",
    "glm": "NLP",
    "image_classification": "Classification",
    "speech_synthesis": "Speech",
    "transformer": "NLP",
    "wav2vec2": "Speech",
}
OTHER_AREA = "Others"

LOSS, SPEEDS = "train.loss", ("train.ips", "train.sps")
METADATA = ("unit", "format", "GOAL", "STAGE")
GOALS = ("MINIMIZE", "MAXIMIZE")
STAGES = ("TRAIN", "VALID", "TEST")
EVALUATION = ("VALID", "TEST")
