"""resnet50 on PyTorch."""

from cases.image_classification.task import ImageClassification
from faulty.fault import Fault


class Faulty(Fault, ImageClassification):
    pass
