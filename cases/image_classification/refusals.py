"""The errors about folders of images, the same for every framework."""

from __future__ import annotations

from flagperf.errors import ConfigError


def no_images(root: str, advice: str | None) -> ConfigError:
    """A split without images, or with a class that has none."""
    return ConfigError(
        "no images in this split of the data set",
        where=root,
        key="data_dir",
        allowed="<class>/<image file> below it, at least one image in each class",
        advice=advice,
    )


def too_many_classes(root: str, num_classes: int, folders: int) -> ConfigError:
    """More folders than the network has classes."""
    return ConfigError(
        "the data set has more classes than the network",
        where=root,
        key="num_classes",
        given=num_classes,
        allowed=f"at least {folders}, one for each folder of the split",
    )


def unreadable(path: str, reason: str) -> ConfigError:
    """An image that the framework's decoder cannot read. `reason`: the decoder's message."""
    return ConfigError(
        "cannot read an image of the data set",
        where=path,
        given=reason,
        advice="replace it by a good copy, or remove it; the archive's checksum tells whether others are damaged",
    )
