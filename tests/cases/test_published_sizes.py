"""One table of the parameters of all cases at full size: those of the published weights or papers.

tests/cases/test_fingerprint.py counts the parameters of the networks.
"""

from __future__ import annotations

import pytest
import yaml

from flagperf.config.files.search_path import CONF, options

TORCHVISION = {  # case → weights, whose description has the number of parameters
    "efficientnet": "EfficientNet_V2_S_Weights.IMAGENET1K_V1",
    "faster_rcnn": "FasterRCNN_ResNet50_FPN_Weights.COCO_V1",
    "mask_rcnn": "MaskRCNN_ResNet50_FPN_Weights.COCO_V1",
    "mobilenetv2": "MobileNet_V2_Weights.IMAGENET1K_V1",
    "resnet50": "ResNet50_Weights.IMAGENET1K_V1",
    "retinanet": "RetinaNet_ResNet50_FPN_Weights.COCO_V1",
    "swin_transformer": "Swin_T_Weights.IMAGENET1K_V1",
    "vit": "ViT_B_16_Weights.IMAGENET1K_V1",
}
# Case → parameters. Of the published weights, where they are published; else by the sizes of FlagPerf's script.
DECODERS = {
    "aquila2_7b": 7_295_537_152,  # BAAI/Aquila2-7B
    "aquila2_34b": 33_693_554_688,  # by hand, from FlagPerf's sizes
    "aquila2_70b": 70_090_891_264,  # by hand, from FlagPerf's sizes
    "baichuan2_13b": 13_896_668_160,  # baichuan-inc/Baichuan2-13B-Base
    "chatglm3_6b": 6_243_584_000,  # THUDM/chatglm3-6b
    "deepseek_v3": 671_026_404_352,  # deepseek-ai/DeepSeek-V3, without the layer for a second token
    "gpt2": 354_871_296,  # openai-community/gpt2-medium, 354,823,168, and 47 rows that fill the vocabulary
    "gpt3_6_7b": 6_658_596_864,  # by hand, from FlagPerf's sizes; arXiv:2005.14165 says 6.7 B
    "gpt3_13b": 12_853_626_880,  # by hand, from FlagPerf's sizes; arXiv:2005.14165 says 13.0 B
    "gpt_oss_20b": 20_914_757_184 - 2 * 2880 * (201_088 - 128_256),  # openai/gpt-oss-20b with a smaller vocabulary
    "llama1_7b": 6_738_415_616,  # huggyllama/llama-7b
    "llama1_13b": 13_015_864_320,  # huggyllama/llama-13b
    "llama2_7b": 6_738_415_616,  # meta-llama/Llama-2-7b-hf
    "llama2_13b": 13_015_864_320,  # meta-llama/Llama-2-13b-hf
    "llama2_70b": 68_976_648_192,  # meta-llama/Llama-2-70b-hf
    "llama2_70b_lora": 68_976_648_192 + 44_564_480,  # with adapters of rank 16: 80 x 16 x (8192 + 10240 + 8192 + 8192)
    "llama3_1b": 1_235_814_400,  # meta-llama/Llama-3.2-1B
    "llama3_1b_lora": 1_235_814_400 + 3_407_872,  # with adapters: 16 x 16 x (2 x (2048 + 2048) + 2 x (2048 + 512))
    "llama3_8b": 8_030_261_248,  # meta-llama/Llama-3.1-8B
    "llama3_70b": 70_553_706_496,  # meta-llama/Meta-Llama-3-70B
    "mixtral_8x7b": 46_702_792_704,  # mistralai/Mixtral-8x7B-v0.1
    "qwen1_5_moe": 14_315_784_192,  # Qwen/Qwen1.5-MoE-A2.7B
    "qwen3_8b": 8_190_735_360,  # Qwen/Qwen3-8B
}
OTHERS = {
    "bert": 336_232_258,  # bert-large of MLPerf's checkpoint, with both heads
    "bert_hf": 109_482_240 - 590_592 + 622_650,  # bert-base-uncased without the pooler, with the head for words
    "bigtransfer": 236_335_208,  # BiT-M-R152x2 with 1000 classes, as timm's resnetv2_152x2_bit
    "cpm": 334_080_000,  # CPM-medium; arXiv:2012.00413 says 334 M
    "detr": 41_302_368 + 222_400,  # as DETR's own code counts them, and the frozen layers
    "distilbert": 66_955_010,  # distilbert-base-uncased-finetuned-sst-2-english
    "dit": 32_883_120,  # arXiv:2212.09748 says 33 M for DiT-S/4
    "flux1": 11_891_178_560,  # black-forest-labs/FLUX.1-schnell; MLPerf says 11.9 billion
    "glm": 334_688_256,  # GLM-large of the original implementation; arXiv:2103.10360 says 335 M
    "longformer": 148_659_456 - 590_592 + 642_393,  # longformer-base-4096 without the pooler, with the head for words
    "t5_small": 60_506_624,  # t5-small
    "tacotron2": 28_193_153,  # of NVIDIA's implementation
    "transformer": 210_808_832 + 72 * 1024,  # of the original implementation; its attention has no biases
    "waveglow": 268_294_760,  # of NVIDIA's implementation
    "wav2vec2": 95_044_608,  # wav2vec2-base with the quantizer
}


def test_parameters_at_full_size_are_the_published_ones() -> None:
    cases = [case for case in options("model", (CONF,)) if case not in TORCHVISION]
    stated = {case: stated_parameters(case) for case in cases}
    assert stated == {**DECODERS, **OTHERS}


@pytest.mark.parametrize(("case", "weights"), TORCHVISION.items(), ids=TORCHVISION.keys())
def test_parameters_at_full_size_are_those_of_torchvisions_weights(case: str, weights: str) -> None:
    models = pytest.importorskip("torchvision.models")
    assert stated_parameters(case) == models.get_weight(weights).meta["num_params"]


def stated_parameters(case: str) -> int:
    """Parameters of the full size by the fingerprint of the case."""
    content = yaml.safe_load((CONF / f"fingerprint/{case}.yaml").read_text(encoding="utf-8"))
    parameters: int = content["full"]["network"]["parameters"]
    return parameters
