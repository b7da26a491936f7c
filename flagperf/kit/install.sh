#!/bin/sh
# Installs flagperf and what one of its jobs needs, from this folder alone. No network is used.
#
#   sh install.sh [FOLDER]                   FOLDER: the new Python environment; ./env without it
#   PYTHON=/opt/python3.11/bin/python3 sh install.sh        with this interpreter
set -eu
env=${1:-env}
case $env in /*) ;; *) env=$PWD/$env ;; esac
cd "$(dirname "$0")"

stop() {
    echo "install.sh: $1" >&2
    exit 1
}

case $env/ in
    "$PWD"/*) stop "the new environment would lie in the kit, whose files are all listed: sh install.sh FOLDER, elsewhere" ;;
esac
# Nothing of the kit runs, and kit.sh is not read, before its files are known to be those that SHA256SUMS lists. Whether
# that list is the packer's own, only the kit's own SHA-256 tells: `flagperf pack` printed it.
echo "1 of 4  hashes of all files"
strange=$(find . ! -type d \( ! -type f -o -perm -4000 -o -perm -2000 \)) # first: a pipe has no end to hash
[ -z "$strange" ] || stop "the kit has links, devices or setuid files, which flagperf does not pack: $strange"
damaged="the kit is damaged: fetch it again"
grep '^[0-9a-f]\{64\}  install\.sh$' SHA256SUMS | sha256sum --check --quiet - || stop "$damaged"
sha256sum --check --quiet --strict SHA256SUMS || stop "$damaged"
unlisted=$(find . -type f ! -path ./SHA256SUMS |
    awk 'NR == FNR { listed["./" substr($0, 67)] = 1; next } !($0 in listed)' SHA256SUMS -)
[ -z "$unlisted" ] || stop "the kit has files that SHA256SUMS does not list; unpack it into a new folder: $unlisted"
# shellcheck source=/dev/null
. ./kit.sh

python=${PYTHON:-$(command -v "python$KIT_PYTHON" || command -v python3 || true)}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=none
[ "$version" = "$KIT_PYTHON" ] ||
    stop "the wheels are for Python $KIT_PYTHON, and ${python:-python3} is $version: name another one as PYTHON=… sh install.sh"
echo "2 of 4  Python packages: $env"
"$python" -m venv "$env" || stop "$python cannot make an environment; on Debian: apt install python3-venv"
pip() {
    PIP_CONFIG_FILE=/dev/null "$env/bin/python" -m pip --isolated --disable-pip-version-check "$@" --quiet --no-index \
        --no-cache-dir --find-links=wheels
}
# pip first chooses the wheels, and then installs exactly these files, by their hashes.
rm -rf "$env/chosen"
# shellcheck disable=SC2086  # several requirements
pip download --dest="$env/chosen" $KIT_REQUIREMENTS || stop "the packages cannot be installed, for the reason above"
for wheel in "$env/chosen"/*.whl; do
    file=${wheel##*/}
    rest=${file#*-}
    hash=$(awk -v name="wheels/$file" 'substr($0, 67) == name { print substr($0, 1, 64) }' SHA256SUMS)
    echo "${file%%-*}==${rest%%-*} --hash=sha256:$hash"
done > "$env/requirements.txt"
pip install --no-deps --require-hashes --requirement="$env/requirements.txt" || stop "the packages cannot be installed, for the reason above"
rm -rf "$env/chosen"

echo "3 of 4  image: ${KIT_IMAGE:-none is needed}"
if [ -f image.tar ]; then
    docker load --quiet --input image.tar || stop "the image cannot be loaded"
elif [ -n "$KIT_IMAGE" ]; then
    # Each step of the build that reads pip.conf also sees the wheels, as files. Its base image must be here.
    place=/run/flagperf-wheels
    rm -rf "$env/image"
    cp -R image "$env/image" && cp -R wheels "$env/image/flagperf-wheels"
    sed "s|--mount=type=secret,id=pip\.conf[^ ]*|& --mount=type=bind,source=flagperf-wheels,target=$place|" \
        image/Dockerfile > "$env/image/Dockerfile"
    printf '[global]\nno-index = true\nfind-links = %s\n' "$place" > "$env/pip.conf"
    DOCKER_BUILDKIT=1 docker build --network=host --secret "id=pip.conf,src=$env/pip.conf" --tag "$KIT_IMAGE" \
        ${KIT_BASE:+--build-arg=BASE_IMAGE="$KIT_BASE"} "$env/image" || stop "the image cannot be built, for the reason above"
    rm -rf "$env/image"
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
