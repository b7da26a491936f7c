"""resnet50 on TensorFlow 2."""

from cases.image_classification.tensorflow2.task import ImageClassification
from faulty.fault import Fault


class Faulty(Fault, ImageClassification):
    pass
