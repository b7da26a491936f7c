"""bert on PaddlePaddle."""

from cases.bert.paddle.task import Pretraining
from faulty.fault import Fault


class Faulty(Fault, Pretraining):
    pass
