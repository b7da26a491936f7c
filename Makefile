# make run     train resnet50 (tiny) on two ranks of this machine's CPU, to its target
# make quick   run the tests that need neither torch nor docker nor a browser: after each change
# make test    run the tests
# make slow    run the tests that are left out of `make test`
# make paddle  an environment with PaddlePaddle beside that of PyTorch: `flagperf framework=paddle` finds it
# make paddle-test   run the tests that train with it
# make tensorflow2, tensorflow2-test   likewise with TensorFlow 2
# make mindspore, mindspore-test       likewise with MindSpore
# make check   lint, types, imports, shell
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/.installed-run
DEV    := $(VENV)/.installed-dev
PADDLE := $(VENV)-paddle/.installed
TENSORFLOW2 := $(VENV)-tensorflow2/.installed
MINDSPORE := $(VENV)-mindspore/.installed

# Tests run side by side, also on two cores: half of the time they wait for hosts, ranks and deadlines.
WORKERS ?= 3
PYTEST  := $(VENV)/bin/pytest -n $(WORKERS) --dist worksteal --durations=25
# Folders whose tests need torch or docker; importing them takes seconds in each worker.
HEAVY   := cases cluster faults trainer
# Tests of each framework beside PyTorch, a row of a table for each.
OTHERS  := tests/cases/test_fingerprint.py tests/cluster/test_frameworks.py tests/faults/test_framework_faults.py

.PHONY: run quick test slow paddle paddle-test tensorflow2 tensorflow2-test mindspore mindspore-test check clean packages

run: $(RUN)
	$(VENV)/bin/flagperf nproc=2

quick: $(DEV)
	$(PYTEST) -m "not (slow or torch or browser or paddle or tensorflow2 or mindspore)" $(HEAVY:%=--ignore=tests/%)

test: $(DEV)
	$(PYTEST) -m "not (slow or paddle or tensorflow2 or mindspore)"

slow: $(DEV) $(PADDLE) $(TENSORFLOW2) $(MINDSPORE)
	$(PYTEST) -m slow

paddle: $(PADDLE)

paddle-test: $(DEV) $(PADDLE)
	$(PYTEST) -m "paddle and not slow" $(OTHERS) tests/cases/bert/test_bert_paddle.py tests/trainer/test_paddle.py

tensorflow2: $(TENSORFLOW2)

tensorflow2-test: $(DEV) $(TENSORFLOW2)
	$(PYTEST) -m "tensorflow2 and not slow" $(OTHERS) tests/cases/image_classification/test_images_tensorflow2.py \
	    tests/trainer/test_tensorflow2.py

mindspore: $(MINDSPORE)

mindspore-test: $(DEV) $(MINDSPORE)
	$(PYTEST) -m "mindspore and not slow" $(OTHERS) tests/cases/image_classification/test_images_mindspore.py \
	    tests/trainer/test_mindspore.py

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

$(PADDLE): pyproject.toml
	$(PYTHON) -m venv $(VENV)-paddle
	@echo "installing flagperf and PaddlePaddle into $(VENV)-paddle: 1 GB, once"
	$(VENV)-paddle/bin/python -m pip install -q -e '.[paddle]'
	@touch $@

$(TENSORFLOW2): pyproject.toml
	$(PYTHON) -m venv $(VENV)-tensorflow2
	@echo "installing flagperf and TensorFlow into $(VENV)-tensorflow2: 2 GB, once"
	$(VENV)-tensorflow2/bin/python -m pip install -q -e '.[tensorflow2]'
	@touch $@

$(MINDSPORE): pyproject.toml
	$(PYTHON) -m venv $(VENV)-mindspore
	@echo "installing flagperf and MindSpore into $(VENV)-mindspore: 3 GB, once"
	$(VENV)-mindspore/bin/python -m pip install -q -e '.[mindspore]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-paddle $(VENV)-tensorflow2 $(VENV)-mindspore build dist *.egg-info result
