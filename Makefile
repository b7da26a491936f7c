# make run     train resnet50 (tiny) on two ranks of this machine's CPU, to its target
# make quick   run the short tests that need neither torch nor docker nor a browser: after each change
# make test    run the tests
# make slow    run the tests that are left out of `make test`: long ones, and those of the other frameworks
# make slow PART=1         the first third of them; 2 and 3: the others
# make oldest, middle  an environment with the oldest PyTorch and Python that the trainer runs on; and with PyTorch 2.4
# make oldest-test, middle-test    run the tests that train with it
# make paddle, tensorflow2, mindspore      an environment with it beside PyTorch's: `flagperf framework=paddle` finds it
# make paddle-test, tensorflow2-test, mindspore-test   run the tests that train with it, without the long ones
# make check   lint, types, imports, licenses, shell, Dockerfiles, translations
# make docs    build the documentation site in English and Chinese: build/docs/index.html
# make licenses   check that the licenses of all installed packages are allowed: build/licenses.txt
# make release    make the files of a release in dist: wheel, source archive, list of packages (CycloneDX), hashes
# make environment     what all of them need, in .venv
# make help    print these lines
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/.installed-run
DEV    := $(VENV)/.installed-dev
FRAMEWORKS := paddle tensorflow2 mindspore
STACKS     := oldest middle

# Each test that starts flagperf would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# Python compiles what it imports, at the first import: a tenth of the modules, and pip would compile them all.
PIP_INSTALL := -m pip install -q --no-compile

# Tests run side by side, also on two cores: half of the time they wait for hosts, ranks and deadlines.
WORKERS ?= 4
PYTEST  := $(VENV)/bin/pytest -n $(WORKERS) --dist worksteal --durations=25
# Folders whose test files import torch, which takes ten seconds in each worker; they compute, and seldom wait. A file
# stays in one worker, which trains once what its tests share.
TORCH   := cases trainer
TORCH_WORKERS := $(or $(filter 0 1,$(WORKERS)),2)
# Folders whose tests need torch or docker.
HEAVY   := $(TORCH) cluster faults
# Folders whose tests start programs of the machine's.
PROGRAMS := bundle cli cluster compare docker hosts report run schedulers
SLOW    := slow or paddle or tensorflow2 or mindspore or oldest or middle
DEFAULT := not ($(SLOW))

# Files that ranks run, with Python 3.8 at the oldest; ruff's table in pyproject.toml names them too.
RANKS := $(patsubst %,flagperf/%.py,__init__ errors installed_cases plain secret user hosts/versions) flagperf/contract flagperf/trainer \
	flagperf/partners/modelzoo/scripts flagperf/schedulers/slurm/agent.py flagperf/docker/discard.py cases

.PHONY: help licenses release docs run environment quick bare test slow check clean packages environments $(STACKS) $(STACKS:%=%-test) $(FRAMEWORKS) $(FRAMEWORKS:%=%-test)

run: $(RUN)
	$(VENV)/bin/flagperf nproc=2 probe=run

environment: $(DEV)

help:
	@sed -n 's/^# make/make/p' Makefile

quick: $(DEV)
	$(PYTEST) -m "not ($(SLOW) or torch or pip or browser or long)" $(HEAVY:%=--ignore=tests/%)

bare: $(DEV)  ## the folders whose tests start programs of the machine's: without docker, gcc or chromium they skip or pass
	$(PYTEST) -m "not ($(SLOW) or torch or pip)" $(PROGRAMS:%=tests/%)

test: $(DEV)  ## two calls side by side, each of which waits half of its time; the output of one comes after the other's
	@mkdir -p build; set -x; light=0; torch=0; \
	$(PYTEST) -n $(TORCH_WORKERS) --dist loadscope -m "$(DEFAULT)" $(TORCH:%=tests/%) > build/test-torch.log 2>&1 & \
	$(PYTEST) -m "$(DEFAULT)" $(TORCH:%=--ignore=tests/%) || light=$$?; \
	wait $$! || torch=$$?; \
	set +x; cat build/test-torch.log; exit $$((light ? light : torch))

environments: $(FRAMEWORKS) $(STACKS)  ## all that `make slow` needs beside the first

slow: $(DEV) environments
	$(PYTEST) -n $(or $(filter 0 1 2,$(WORKERS)),3) -m "$(SLOW)" --durations-path tests/durations.json $(PART:%=--splits 3 --group %) $(STORE:%=--store-durations --clean-durations)
	.ci/thirds passed $(or $(PART),1 2 3)

$(FRAMEWORKS): %: $(VENV)-%/.installed

$(FRAMEWORKS:%=%-test): %-test: $(DEV) %
	$(PYTEST) -m "$* and not slow" $(HEAVY:%=tests/%)

$(STACKS): %: $(VENV)-%/.installed

$(STACKS:%=%-test): %-test: $(DEV) %
	$(PYTEST) -m $* tests/cases

check: $(DEV) licenses
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/vermin -q -t=3.8- --no-tips --violations --exclude long $(RANKS)
	$(VENV)/bin/lint-imports
	$(VENV)/bin/deptry .
	$(VENV)/bin/python docs/site/translations.py
	$(VENV)/bin/hadolint --ignore DL3008 $$(find vendors -name Dockerfile)  # DL3008: Debian keeps no older versions
	shellcheck .ci/run .ci/thirds $$(find benchmarks cases flagperf tests vendors -name '*.sh')

docs: $(DEV)
	$(VENV)/bin/sphinx-build -q -W --keep-going -c docs/site -t en . build/docs/en
	$(VENV)/bin/sphinx-build -q -W --keep-going -c docs/site -t zh . build/docs/zh
	cp docs/site/index.html build/docs/index.html
	@echo build/docs/index.html

licenses: $(DEV)
	@mkdir -p build
	$(VENV)/bin/pip-licenses --output-file build/licenses.txt

# The times of files are those of the commit, so that everybody builds the same bytes. The list of packages is that of
# the launcher: a vendor's stack decides on the packages of the ranks.
release: licenses
	test -z "$$(git status --porcelain)" || { echo "a release is made of a commit: git status"; exit 1; }
	rm -rf dist build/launcher
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(VENV)/bin/python -m build --sdist --wheel
	$(VENV)/bin/python -m venv --without-pip build/launcher
	$(VENV)/bin/python -m pip --python build/launcher/bin/python install -q --no-compile dist/flagperf-*.whl
	version=$$($(VENV)/bin/python -c 'import flagperf; print(flagperf.__version__)'); \
	    sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > build/pyproject.toml
	$(VENV)/bin/cyclonedx-py environment build/launcher --pyproject build/pyproject.toml --mc-type application \
	    --output-reproducible --output-file "$$(ls dist/*.whl | sed 's/-py3.*/.cdx.json/')"
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

packages:  ## what `make check`, the tests of clusters and of the report page need, on Debian, as root
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
	    python3-venv docker.io openssh-server openssh-client openssl iproute2 iptables gcc libc6-dev chromium shellcheck \
	    munge slurmctld slurmd slurm-client procps strace zstd mmdebstrap

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt install python3-venv"; exit 1; }

$(RUN): pyproject.toml | $(VENV)/bin/python
	@echo "installing flagperf and PyTorch into $(VENV): some GB, once"
	$(VENV)/bin/python $(PIP_INSTALL) -e '.[train]'
	@touch $@

$(DEV): pyproject.toml $(RUN) | $(VENV)/bin/python
	$(VENV)/bin/python $(PIP_INSTALL) -e '.[train,test,docs,dev]'
	@touch $@

$(VENV)-%/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-$*
	@echo "installing flagperf and $* into $(VENV)-$*: 1 to 3 GB, once"
	$(VENV)-$*/bin/python $(PIP_INSTALL) -e '.[$*]'
	@touch $@

# The first of these minors of Python 3 that starts, on the path or among pyenv's, with the packages of
# the extras train-<stack> and train-older.
# flagperf itself may ask for a newer Python: what ranks run of it is found here by its folder.
oldest_PYTHONS := 8 9 10 11
middle_PYTHONS := 10 11 12
$(STACKS:%=$(VENV)-%/.installed): $(VENV)-%/.installed: pyproject.toml $(RUN)
	@for minor in $($*_PYTHONS); do \
	    for python in python3.$$minor "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.$$minor.*/bin/python; do \
	        "$$python" -c 'import ensurepip, venv' 2>/dev/null || continue; \
	        echo "installing the $* PyTorch with $$("$$python" -V) into $(VENV)-$*: 4 GB, once"; \
	        exec "$$python" -m venv --clear $(VENV)-$*; \
	    done; \
	done; echo "no Python 3 of the minors $($*_PYTHONS) starts here, and the $* PyTorch needs one"; exit 1
	$(VENV)/bin/python -c "import re; from importlib.metadata import requires; \
	    lines = [line for line in requires('flagperf') if re.search('train-($*|older)', line)]; \
	    print(*(line.partition(';')[0] for line in lines), sep='\n')" > $(VENV)-$*/requirements.txt
	$(VENV)-$*/bin/python $(PIP_INSTALL) -r $(VENV)-$*/requirements.txt
	echo "$(CURDIR)" > "$$($(VENV)-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/flagperf.pth"
	@touch $@

clean:
	rm -rf $(VENV) $(STACKS:%=$(VENV)-%) $(FRAMEWORKS:%=$(VENV)-%) build dist *.egg-info result
