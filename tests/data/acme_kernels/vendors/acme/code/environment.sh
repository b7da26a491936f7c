# shellcheck shell=bash
# bash sources this before it starts the ranks.
source /dev/null                   # what sh does not know
export ACME_LIBRARY=on
