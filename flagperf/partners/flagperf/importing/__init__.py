"""A FlagPerf checkout → a configuration folder of flagperf: cluster, experiment, vendor, products and tunings.

In: folders or files of FlagPerf. Out: texts of YAML files, and what could not be carried over, with file and line.
FlagPerf's files are Python and shell: they are parsed and never executed. Nothing is composed or run here.

checkout.py finds the files, python_file.py and shell_file.py read them, values.py is what they say. words.yaml is what
FlagPerf's names are here: with it tuning.py writes tunings, site.py and site_files.py the rest. files.py puts all of it
together.
"""
