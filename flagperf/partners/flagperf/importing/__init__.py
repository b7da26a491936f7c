"""A FlagPerf checkout → a configuration folder of flagperf: cluster, experiment, vendor, products and tunings.

In: folders or files of FlagPerf. Out: texts of YAML files, and the values without counterpart, with file and line.
FlagPerf's files are Python and shell: this package parses them, and never executes them.

checkout.py finds the files, python_file.py and shell_file.py read them, values.py has the types of their contents.
words.yaml maps FlagPerf's names to ours. tuning.py writes tunings, site.py and site_files.py the other files. files.py
joins all parts.
"""
