"""Sample data of the image cases: scikit-learn's handwritten digits as a folder of JPEG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def write_digits(folder: str | Path, image_size: int = 32) -> None:
    """Write 1797 real images of ten classes, `image_size` pixels square: every fifth to val/, the others to train/."""
    digits = load_digits()
    pixels = (digits.images * (255 / digits.images.max())).round().astype(np.uint8)
    for index, (image, label) in enumerate(zip(pixels, digits.target)):
        split = "val" if index % 5 == 0 else "train"
        path = Path(folder, split, str(label), f"{index:04d}.JPEG")
        path.parent.mkdir(parents=True, exist_ok=True)
        large = Image.fromarray(image).resize((image_size, image_size), Image.Resampling.BICUBIC)
        large.convert("RGB").save(path, quality=95)
