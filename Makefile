# make run     train resnet50 (tiny) on two ranks of this machine's CPU, to its target
# make test    run the tests
# make check   lint, types, imports, shell
# make slow    run the tests that are left out of `make test`
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/.installed-run
DEV    := $(VENV)/.installed-dev

.PHONY: run test slow check clean packages

run: $(RUN)
	$(VENV)/bin/flagperf nproc=2

test: $(DEV)
	$(VENV)/bin/pytest -m "not slow" --durations=20

slow: $(DEV)
	$(VENV)/bin/pytest -m slow --durations=20

check: $(DEV)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/deptry .
	shellcheck .ci/run $$(find benchmarks cases flagperf tests vendors -name '*.sh')

packages:  ## what `make check`, the tests of clusters and of the report page need, on Debian, as root
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
	    python3-venv docker.io openssh-server openssh-client iproute2 iptables gcc libc6-dev chromium shellcheck

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }

$(RUN): pyproject.toml | $(VENV)/bin/python
	@echo "installing flagperf and PyTorch into $(VENV): some GB, once"
	$(VENV)/bin/python -m pip install -q -e '.[train]'
	@touch $@

$(DEV): pyproject.toml $(RUN) | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q -e '.[train,test,dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info result
