#!/bin/sh
# Installs flagperf and what one of its jobs needs, from this folder alone. No network is used.
#
#   sh install.sh [FOLDER]                   FOLDER: the new Python environment; ./env without it
#   PYTHON=/opt/python3.11/bin/python3 sh install.sh        with this interpreter
set -eu
env=${1:-env}
case $env in /*) ;; *) env=$PWD/$env ;; esac
cd "$(dirname "$0")"
# shellcheck source=/dev/null
. ./kit.sh

stop() {
    echo "install.sh: $1" >&2
    exit 1
}

echo "1 of 4  hashes of all files"
sha256sum --check --quiet SHA256SUMS || stop "the kit is damaged: fetch it again"

python=${PYTHON:-$(command -v "python$KIT_PYTHON" || command -v python3 || true)}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=none
[ "$version" = "$KIT_PYTHON" ] ||
    stop "the wheels are for Python $KIT_PYTHON, and ${python:-python3} is $version: name another one as PYTHON=… sh install.sh"
echo "2 of 4  Python packages: $env"
"$python" -m venv "$env" || stop "$python cannot make an environment; on Debian: apt install python3-venv"
# shellcheck disable=SC2086  # several requirements
PIP_CONFIG_FILE=/dev/null "$env/bin/python" -m pip --isolated --disable-pip-version-check install --quiet --no-index \
    --no-cache-dir --find-links=wheels $KIT_REQUIREMENTS || stop "the packages cannot be installed, for the reason above"

echo "3 of 4  image: ${KIT_IMAGE:-none is needed}"
if [ -f image.tar ]; then
    docker load --quiet --input image.tar || stop "the image cannot be loaded"
elif [ -n "$KIT_IMAGE" ]; then
    # The build asks a server of this machine for the wheels. Its base image must be here.
    (cd wheels && exec "$env/bin/python" -m http.server --bind 127.0.0.1 8737 >/dev/null 2>&1) &
    trap 'kill $! 2>/dev/null' EXIT
    printf '[global]\nno-index = true\nfind-links = http://127.0.0.1:8737/\n' > "$env/pip.conf"
    DOCKER_BUILDKIT=1 docker build --network=host --secret "id=pip.conf,src=$env/pip.conf" --tag "$KIT_IMAGE" \
        ${KIT_BASE:+--build-arg=BASE_IMAGE="$KIT_BASE"} image || stop "the image cannot be built, for the reason above"
fi

case ${XDG_CACHE_HOME:-} in
    /*) cache=$XDG_CACHE_HOME ;;
    *) cache=${HOME:?set HOME to a folder of yours}/.cache ;;
esac
sample=$cache/flagperf/sample
echo "4 of 4  sample data: $sample"
for folder in sample/*/; do
    [ -d "$folder" ] || continue
    name=$(basename "$folder")
    [ -e "$sample/$name" ] && continue
    mkdir -p "$sample" && cp -R "sample/$name" "$sample/.$name" && mv "$sample/.$name" "$sample/$name"
done

echo "done. data.json lists the full data. To begin:"
echo "  $env/bin/flagperf $KIT_COMMAND${KIT_NAMES_PYTHON:+ runtime.python=$env/bin/python}"
