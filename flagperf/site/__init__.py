"""Bundles → a folder of static pages, which needs no server and asks no other host for anything.

Input: files that `flagperf export` wrote, and the figures that FlagPerf publishes. Output: pages in English and
Chinese, with the bundles for download. Each bundle is verified first: its hashes, its signatures, and every
figure again. The texts of the pages are English in code and templates; zh.yaml has the Chinese texts.
"""
