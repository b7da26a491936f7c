"""resnet50 and llama3_8b on PyTorch."""

from cases.image_classification.task import ImageClassification
from cases.language_model.task import NextToken
from faulty.fault import Fault


class Faulty(Fault, ImageClassification):
    pass


class FaultyText(Fault, NextToken):
    pass
