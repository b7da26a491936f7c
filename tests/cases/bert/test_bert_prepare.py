"""From MLPerf's text to HDF5 shards: the arrays are those that NVIDIA's create_pretraining_data.py makes."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pytest

from cases.bert.examples import Recipe
from cases.bert.prepare import Shard, _tokenizer, make_shard, prepare, read_documents
from cases.bert.shard import KEYS
from flagperf.config.compose import compose
from flagperf.config.parts.data_layout import check_layout
from flagperf.contract.components import component
from flagperf.errors import ConfigError

WORDS = ["the", "sun", "moon", "rises", "sets", "##s", "over", "sea", "hill", "and", "then", "cafe", ".", ",", "un"]
RECIPE = {
    "max_seq_length": 32,
    "max_predictions_per_seq": 5,
    "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
    "dupe_factor": 3,
}

# Of the arrays that NVIDIA's script makes of the same files with the same arguments, see `digest`.
ORIGINAL = {
    "train/part-00000-of-00002.hdf5": (319, "63f47513ec3323cf"),
    "train/part-00001-of-00002.hdf5": (251, "b657206a69e1ffee"),
    "eval/part_eval_10k.hdf5": (223, "93887d3347187115"),
}


def text(seed: int) -> str:
    """Some documents; some sentences are long, some words unknown, some documents empty."""
    random = Random(seed)
    words = [
        "The",
        "sun",
        "Suns",
        "moons",
        "rises",
        "sets",
        "over",
        "sea",
        "hills",
        "and",
        "café",
        "unsets",
        "zebra",
        ",",
    ]
    lines = []
    for _ in range(40):
        for _ in range(random.randint(0, 7)):
            lines.append(" ".join(random.choices(words, k=random.choice([1, 5, 9, 40]))) + ".")
        lines.append("" if random.random() < 0.9 else "  \t")
    return "\n".join(lines) + "\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "results4").mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    for seed, name in enumerate(("part-00000-of-00002", "part-00001-of-00002", "eval.txt")):
        (folder / "results4" / name).write_text(text(seed), encoding="utf-8")
    return folder


def convert(source: Path, folder: Path, eval_examples: int = 10_000) -> None:
    folder.mkdir()
    prepare(source, folder, "train", "eval", eval_examples, RECIPE, seed=12345, processes=2)


def read(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {key: file[key][()] for key in file}


def digest(path: Path) -> tuple[int, str]:
    """How many examples a shard holds, and a digest of its arrays, in the order of their names."""
    arrays = read(path)
    assert {key: array.dtype.str[1:] for key, array in arrays.items()} == KEYS
    whole = b"".join(arrays[key].tobytes() for key in sorted(arrays))
    return len(arrays["input_ids"]), hashlib.sha256(whole).hexdigest()[:16]


def test_shards_equal_those_of_the_original(source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    folder = tmp_path / "data"
    convert(source, folder)
    files = sorted(path for path in folder.rglob("*.hdf5"))
    assert {str(path.relative_to(folder)): digest(path) for path in files} == ORIGINAL
    assert caplog.messages[0] == "making 3 shards"
    assert caplog.messages[-1] == "3 of 3 shards are made"


def test_evaluation_examples_are_spread_evenly(source: Path, tmp_path: Path) -> None:
    """The number i of n picked ones is the number int(i * all / n) of all, as in pick_eval_samples.py."""
    for name, limit in (("all", None), ("some", 100)):
        shard = Shard(source / "results4/eval.txt", tmp_path / name, limit)
        make_shard(shard, source / "vocab.txt", Recipe(**RECIPE), seed=12345)
    everything, some = read(tmp_path / "all"), read(tmp_path / "some")
    picked = [int(i * 2.23) for i in range(100)]
    assert all(np.array_equal(everything[key][picked], some[key]) for key in KEYS)


def test_words_of_a_text_are_never_special_tokens(source: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The [SEP] MOONS\n \nCafé\u2028" + "un" * 100 + " " + "un" * 101 + "\n")
    tokenizer = _tokenizer(source / "vocab.txt")
    documents = read_documents(tmp_path / "text", tokenizer)
    words = [[tokenizer.id_to_token(token) for token in sentence] for [sentence] in documents]
    assert words == [["the", "[UNK]", "[UNK]", "[UNK]", "moon", "##s"], ["cafe", "[UNK]", "[UNK]"]]


def test_the_configured_converter_makes_the_data_set(source: Path, tmp_path: Path) -> None:
    config = dict(compose(["model=bert", "size=tiny", f"data_dir={tmp_path}"]).config)
    component(config["data"], "prepare", source, tmp_path)
    (tmp_path / "model.ckpt-28252.pt").touch()  # put there by hand
    assert len(component(config, "train_data")) > 300
    assert len(component(config, "eval_data")) > 100
    config = compose(["model=bert", "size=full", f"data_dir={tmp_path}", "dry_run=true"]).config
    check_layout(config["data"], tmp_path)


def no_parts(source: Path) -> None:
    for part in source.glob("results4/part*"):
        part.unlink()
    (source / "vocab.txt").unlink()


def not_text(source: Path) -> None:
    (source / "results4/part-00001-of-00002").write_bytes(b"\xff\xfe\x00")


def no_text(source: Path) -> None:
    (source / "results4/part-00001-of-00002").write_text("\n \n")


def other_vocabulary(source: Path) -> None:
    (source / "vocab.txt").write_text("a\nb\n[UNK]\n[SEP]\n")


def test_a_source_that_lacks_files_is_refused(source: Path, tmp_path: Path) -> None:
    for part in source.glob("results4/part*"):
        part.unlink()
    (source / "vocab.txt").unlink()
    with pytest.raises(ConfigError) as caught:
        convert(source, tmp_path / "data")
    assert str(caught.value) == (
        f"the source lacks files\n  where:   command line\n  key:     source\n  given:   {source}\n"
        "  allowed: a folder with results4/part-*, results4/eval.txt and vocab.txt\n"
        "  do:      missing: results4/part-*, vocab.txt"
    )


def test_an_error_of_a_process_is_told_as_it_is(source: Path, tmp_path: Path) -> None:
    (source / "results4/part-00001-of-00002").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as caught:
        convert(source, tmp_path / "data")
    assert str(caught.value) == (
        f"not UTF-8 text\n  where:   {source}/results4/part-00001-of-00002:1\n  key:     source\n"
        "  given:   byte 0xff behind ''\n"
        "  allowed: a text file in UTF-8\n  do:      convert the file, such as by: iconv -f LATIN1 -t UTF-8 FILE"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param(
            "results4/eval.txt",
            "\n \n",
            "no text in this file\n  where:   {path}\n  key:     source",
            id="empty",
        ),
        pytest.param(
            "vocab.txt",
            "a\nb\n[UNK]\n[SEP]\n",
            "not a vocabulary of BERT\n  where:   {path}\n  key:     source\n  given:   no [CLS], [MASK] in it",
            id="another vocabulary",
        ),
    ],
)
def test_what_cannot_be_used_is_named(source: Path, tmp_path: Path, name: str, content: str, message: str) -> None:
    (source / name).write_text(content)
    shard = Shard(source / "results4/eval.txt", tmp_path / "shard")
    with pytest.raises(ConfigError) as caught:
        make_shard(shard, source / "vocab.txt", Recipe(**RECIPE), seed=12345)
    assert str(caught.value) == message.format(path=source / name)
