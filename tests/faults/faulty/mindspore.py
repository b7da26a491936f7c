"""resnet50 on MindSpore."""

from cases.image_classification.mindspore.task import ImageClassification
from faulty.fault import Fault


class Faulty(Fault, ImageClassification):
    pass
