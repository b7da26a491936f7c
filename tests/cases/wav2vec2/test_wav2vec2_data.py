"""LibriSpeech: manifests, batches by length, masks and negatives, and what makes a data folder of the public files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from cases.wav2vec2.data import EvalUtterances, TrainUtterances, Utterances
from cases.wav2vec2.masking import Masking, numpy_seed
from cases.wav2vec2.prepare import librispeech
from flagperf.contract.components import component
from flagperf.errors import ConfigError

RATE = 16000
MASKING = Masking(mask_prob=0.65, mask_length=10, num_negatives=5, conv_kernel=[40, 8, 4], conv_stride=[20, 4, 4])


def write_flac(path: Path, samples: int, rate: int = RATE, channels: int = 1) -> None:
    """A ramp from 0 on, a step of 1 / 32768 each sample; each further channel is half as loud as the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ramp = np.arange(samples) % 32768
    soundfile.write(path, np.stack([ramp // 2**channel for channel in range(channels)], axis=1).astype("int16"), rate)


def write_split(folder: Path, sizes: Sequence[int], root: str = ".") -> str:
    """Files a0, a1 … of these sizes below `folder`/s, and their manifest; the first line is `root`."""
    lines = [root]
    for number, size in enumerate(sizes):
        write_flac(folder / f"s/a{number}.flac", size)
        lines.append(f"s/a{number}.flac\t{size}")
    (folder / "split.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "split.tsv")


def train_data(manifest: str, **words: int) -> TrainUtterances:
    defaults = {"min_sample_size": 0, "max_sample_size": 10**6, "max_tokens": 10**6, "size_multiple": 8}
    return TrainUtterances(manifest, RATE, MASKING, **{**defaults, **words})


def test_audio_is_what_the_file_holds(tmp_path: Path) -> None:
    data = Utterances(write_split(tmp_path, [4000]), RATE, MASKING)
    assert torch.equal(data.read(0), torch.arange(4000) / 32768)
    write_flac(tmp_path / "s/a0.flac", 4000, channels=2)
    assert torch.allclose(data.read(0), (torch.arange(4000) + torch.arange(4000) // 2) / 65536)


def test_short_utterances_are_left_out(tmp_path: Path) -> None:
    data = train_data(write_split(tmp_path, [4000, 9000, 8000]), min_sample_size=8000)
    assert (data.paths, data.sizes.tolist()) == (["s/a1.flac", "s/a2.flac"], [9000, 8000])


@pytest.mark.parametrize(
    ("sizes", "max_tokens", "multiple", "expected"),
    [
        pytest.param([10, 10, 10, 10, 10], 25, 8, [2, 2, 1], id="as many as fit"),
        pytest.param([12, 10, 10, 6, 6, 6, 6], 24, 8, [2, 2, 3], id="the longest counts for all"),
        pytest.param([30, 10, 10], 25, 8, [1, 2], id="one that is too long is alone"),
        pytest.param([2] * 23, 22, 8, [8, 8, 7], id="eleven would fit: a multiple of eight"),
        pytest.param([2] * 7 + [1] * 7, 14, 8, [7, 7], id="seven is fewer than eight"),
        pytest.param([50, 50, 50, 9], 30, 8, [1, 1, 1, 1], id="the rest is a group of its own"),
    ],
)
def test_groups(tmp_path: Path, sizes: list[int], max_tokens: int, multiple: int, expected: list[int]) -> None:
    data = train_data(write_split(tmp_path, [100]), max_tokens=max_tokens, size_multiple=multiple)
    groups = data.groups(list(range(len(sizes))), sizes)
    assert [len(group) for group in groups] == expected
    assert [index for group in groups for index in group] == list(range(len(sizes)))


def test_batches_hold_neighbours_in_length(tmp_path: Path) -> None:
    sizes = [100 * (1 + number % 10) for number in range(40)]  # four of each of ten lengths
    data = train_data(write_split(tmp_path, sizes), max_tokens=2000, max_sample_size=900)
    generator = torch.Generator().manual_seed(0)
    first, second = data.batches(2, generator), data.batches(2, generator)
    lengths = sorted((sorted(min(900, sizes[index]) for index in batch) for batch in first), reverse=True)
    assert lengths == [
        [900] * 4,  # 100 of the four utterances of 1000 are not used
        [900] * 4,
        [800] * 4,
        [700] * 4,
        [500] * 2 + [600] * 4,  # 3 + 3: 600 three times, and 600, 500, 500
        [300] * 3 + [400] * 4 + [500] * 2,  # 4 + 5
        [100] * 4 + [200] * 4 + [300],  # 6 + 3
    ]
    assert len({index for batch in first for index in batch}) == sum(map(len, first))
    assert first != second


def test_clips_are_cut_to_the_shortest(tmp_path: Path) -> None:
    data = train_data(write_split(tmp_path, [9000, 8000, 12000]), max_sample_size=8500)
    with numpy_seed(3):
        batch = data.collate_fn([data[0], data[1], data[2]])
    starts = batch["audio"][:, 0] * 32768
    assert batch["audio"].shape == (3, 8000)
    assert torch.equal(batch["audio"] * 32768, starts[:, None] + torch.arange(8000))
    with numpy_seed(3):
        assert starts.tolist() == [np.random.randint(0, more + 1) for more in (1000, 0, 4000)]


def test_masks_and_negatives_are_those_of_transformers() -> None:
    from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices, _sample_negative_indices

    assert MASKING.frames(8000) == 24
    clips = [torch.zeros(8000)] * 3
    with numpy_seed(1):
        batch = MASKING.batch(clips)
    with numpy_seed(1):
        mask = _compute_mask_indices((3, 24), 0.65, 10, min_masks=2)
        negatives = _sample_negative_indices((3, 24), 5, mask)
    assert batch["masked"].tolist() == np.flatnonzero(mask).tolist()
    assert batch["masked"][batch["negatives"]].tolist() == negatives[mask].tolist()


def test_negatives_are_other_masked_frames_of_the_clip() -> None:
    batch = MASKING.batch([torch.zeros(16000)] * 4)
    clip = batch["masked"] // MASKING.frames(16000)
    own = torch.arange(len(clip))[:, None]
    assert (batch["negatives"] != own).all()
    assert torch.equal(clip[batch["negatives"]], clip[:, None].expand_as(batch["negatives"]))


def test_joined_batches_equal_one() -> None:
    clips = [torch.full((8000,), float(number)) for number in range(3)]
    alone = []
    for number, clip in enumerate(clips):
        with numpy_seed(number):
            alone.append(MASKING.batch([clip]))
    joined = MASKING.join([MASKING.join(alone[:2]), alone[2]])
    assert torch.equal(joined["audio"], torch.stack(clips))
    assert torch.equal(joined["masked"], torch.cat([one["masked"] + 24 * n for n, one in enumerate(alone)]))
    starts = np.cumsum([0, *(len(one["masked"]) for one in alone)]).tolist()
    assert torch.equal(joined["negatives"], torch.cat([one["negatives"] + starts[n] for n, one in enumerate(alone)]))


def test_an_evaluated_utterance_is_the_same_in_any_company(tmp_path: Path) -> None:
    data = EvalUtterances(write_split(tmp_path, [9000, 20000, 15000, 12000]), RATE, MASKING, eval_crop=4000)
    assert [clip["audio"].shape[1] for clip in data] == [20000, 12000, 12000, 8000]  # 20000, 15000, 12000, 9000
    state = np.random.get_state()[1].tolist()
    twice = [data[2], data[2]]
    assert np.random.get_state()[1].tolist() == state
    assert all(torch.equal(twice[0][name], twice[1][name]) for name in twice[0])
    same_length = data.collate_fn([data[0], data[1], data[2], data[3]])
    assert [tuple(batch["audio"].shape) for batch in same_length] == [(1, 20000), (2, 12000), (1, 8000)]


def test_shorter_than_the_crop_is_evaluated_whole(tmp_path: Path) -> None:
    data = EvalUtterances(write_split(tmp_path, [5000]), RATE, MASKING, eval_crop=8000)
    assert data[0]["audio"].shape == (1, 5000)


@pytest.mark.parametrize("root", ["/elsewhere/LibriSpeech", "/elsewhere/s"], ids=["beside it", "in a folder beside it"])
def test_data_that_was_moved_is_found(tmp_path: Path, root: str) -> None:
    manifest = Path(write_split(tmp_path, [4000], root))
    if root.endswith("/s"):
        manifest.write_text(f"{root}\na0.flac\t4000\n")
    assert len(Utterances(str(manifest), RATE, MASKING).read(0)) == 4000


def without_file(folder: Path) -> None:
    (folder / "s/a0.flac").unlink()


def without_tab(folder: Path) -> None:
    (folder / "split.tsv").write_text(".\ns/a0.flac 4000\n")


def with_noise(folder: Path) -> None:
    (folder / "s/a0.flac").write_bytes(b"no FLAC at all")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda folder: (folder / "split.tsv").unlink(),
            "no such file in the data set\n  where:   {folder}/split.tsv\n  key:     data_dir",
            id="no manifest",
        ),
        pytest.param(
            lambda folder: (folder / "split.tsv").write_text(""),
            "no utterance in the manifest is long enough\n  where:   {folder}/split.tsv\n  key:     min_sample_size\n"
            "  given:   0 utterances of less than 0 audio samples",
            id="empty manifest",
        ),
        pytest.param(
            without_tab,
            "a line of the manifest cannot be read\n  where:   {folder}/split.tsv:2\n  given:   's/a0.flac 4000'\n"
            "  allowed: path, tab, number of audio samples",
            id="no tab",
        ),
        pytest.param(
            without_file,
            "the first audio file of the manifest is missing\n  where:   {folder}/split.tsv\n  key:     data_dir\n"
            "  given:   s/a0.flac\n  allowed: a file below {folder}",
            id="no audio",
        ),
        pytest.param(
            with_noise, "cannot read the audio file\n  where:   {folder}/s/a0.flac\n  key:     data_dir", id="no FLAC"
        ),
        pytest.param(
            lambda folder: write_flac(folder / "s/a0.flac", 4000, rate=8000),
            "the audio file has another sample rate\n  where:   {folder}/s/a0.flac\n  key:     sample_rate\n"
            "  given:   8000 Hz\n  allowed: 16000 Hz",
            id="another sample rate",
        ),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    manifest = write_split(tmp_path, [4000])
    damage(tmp_path)
    with pytest.raises(ConfigError) as caught:
        Utterances(manifest, RATE, MASKING).read(0)
    assert str(caught.value).startswith(message.format(folder=tmp_path))


WORDS = {
    "train_subsets": ["train-clean-100", "train-other-500"],
    "eval_subset": "dev-other",
    "train_path": "train-full-960.tsv",
    "eval_path": "dev-other.tsv",
}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """LibriSpeech as it comes out of its archives, with one utterance or two a subset."""
    source = tmp_path / "LibriSpeech"
    for number, name in enumerate(("train-clean-100/19/198/19-198-0001", "train-clean-100/19/198/19-198-0000")):
        write_flac(source / f"{name}.flac", 4000 + number)
    write_flac(source / "train-other-500/20/205/20-205-0000.flac", 5000)
    write_flac(source / "dev-other/116/288045/116-288045-0000.flac", 6000)
    (source / "dev-other/116/288045/116-288045.trans.txt").write_text("116-288045-0000 AS I APPROACHED THE CITY\n")
    return source


def test_prepared_data_is_read(unpacked: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    librispeech(unpacked, folder, **WORDS)
    shutil.rmtree(unpacked)  # nothing is left behind there
    assert (folder / "train-full-960.tsv").read_text() == (
        ".\n"
        "train-clean-100/19/198/19-198-0000.flac\t4001\n"
        "train-clean-100/19/198/19-198-0001.flac\t4000\n"
        "train-other-500/20/205/20-205-0000.flac\t5000\n"
    )
    moved = folder.rename(tmp_path / "moved")
    data = train_data(str(moved / "train-full-960.tsv"))
    assert [len(data[index]) for index in range(3)] == [4001, 4000, 5000] == data.sizes.tolist()
    assert len(Utterances(str(moved / "dev-other.tsv"), RATE, MASKING)) == 1


def test_a_missing_subset_is_named(unpacked: Path, tmp_path: Path) -> None:
    shutil.rmtree(unpacked / "dev-other")
    with pytest.raises(ConfigError) as caught:
        librispeech(unpacked, tmp_path / "data", **WORDS)
    assert str(caught.value) == (
        "no FLAC files of a subset\n  where:   command line\n  key:     source\n"
        f"  given:   {unpacked}/dev-other\n"
        "  allowed: the folder LibriSpeech/ with the subset's folder below it\n"
        "  do:      unpack dev-other.tar.gz of openslr.org/12"
    )


def test_the_sample_data_is_like_librispeech(tiny: Callable[[str], dict[str, Any]]) -> None:
    config = tiny("wav2vec2")
    data = component(config, "train_data")
    sizes = [len(data[index]) for index in range(0, 400, 80)]
    assert sizes == data.sizes[::80].tolist()
    assert all(32000 <= size <= 48000 for size in data.sizes.tolist())
    assert (len(data), len(component(config, "eval_data"))) == (400, 48)
