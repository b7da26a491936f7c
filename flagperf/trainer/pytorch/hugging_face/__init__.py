"""Weights in the form of Hugging Face: a folder of .safetensors files, with an index where there are several.

A folder comes in, tensors by the names of a network go out, which are read when they are needed, part by part
(`read.py`). A network and its tensors become such a folder (`write.py`). The names that differ are data: `names.yaml`.
transformers is not needed: a network of another library has a folder, too.
"""
