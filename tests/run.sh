#!/usr/bin/env bash
# Every check and every test, as CI runs them, from a clean checkout on Debian 12.
#
#   tests/run.sh             all of it: under 45 minutes on 2 cores from nothing, under 20 when built
#   tests/run.sh quick       without real networks, the real model and the quickstart
#   tests/run.sh deep        properties alone, twenty times over, each time with other cases (the seed is printed)
#
# As root (or with sudo for packages; tests in network namespaces need root and are skipped loudly without it, unless CI
# is set, which demands them). What is built, fetched and installed is kept in ${IDLEWILD_CACHE:-~/.cache/idlewild}.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
# shellcheck source=packaging/steps.sh
source "$repo/packaging/steps.sh"
cd "$repo"

NEXTEST_VERSION=0.9.143
OPENAI_VERSION=3.57.0

scope=${1:-all}
[[ $scope == all || $scope == quick || $scope == deep ]] ||
    fail "unknown scope $scope" "tests/run.sh, tests/run.sh quick, or tests/run.sh deep"

# These would replace the flags in .cargo/config.toml, and with them the vector instructions.
unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
# Errors name what failed; a harness's stack of forty frames below each would only hide it.
export RUST_BACKTRACE=0
CARGO_TARGET_DIR=$(target_dir)
export CARGO_TARGET_DIR
tools=$(cache_dir)/tools
export PATH="$tools/bin:$PATH"

step "Packages"
install_packages g++ make cmake pkg-config libclang-dev ca-certificates git iproute2 nftables iputils-ping procps \
    python3 python3-pip python3-venv shellcheck \
    xvfb xdotool dbus dbus-daemon mutter python3-dbusmock python3-dbus python3-gi

step "Toolchain"
require_rust "$repo"
for component in fmt clippy nextest; do
    if ! cargo "$component" --version >/dev/null 2>&1; then
        [[ $component == nextest ]] || fail "cargo $component is missing" "rustup component add rustfmt clippy"
        echo "building cargo-nextest $NEXTEST_VERSION (once)" >&2
        cargo install --quiet --locked --root "$tools" --version "$NEXTEST_VERSION" cargo-nextest
    fi
done

step "Format"
cargo fmt --all --check

step "Scripts"
shellcheck --external-sources packaging/*.sh tests/*.sh .ci/run

step "Lints"
cargo clippy --quiet --release --locked --workspace --all-targets -- -D warnings

step "Documentation builds without a warning"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --release --locked --workspace --no-deps

step "Dependencies: licences, bans, sources"
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --log-level error check licenses bans sources
else
    echo "SKIPPED: cargo-deny is not installed (cargo install --locked cargo-deny)" >&2
fi

step "The program"
cargo build --quiet --release --locked --package idlewild
IDLEWILD_BIN=$(built_program)
export IDLEWILD_BIN

selection=()
if [[ $scope == all ]]; then
    step "Models, and the client of OpenAI's that drives the API"
    IDLEWILD_TEST_MODEL=$(fetch_model)
    IDLEWILD_TEST_MODEL_GEMMA=$(fetch_gemma)
    export IDLEWILD_TEST_MODEL IDLEWILD_TEST_MODEL_GEMMA IDLEWILD_REQUIRE_MODELS=1
    venv=$(cache_dir)/python-openai-$OPENAI_VERSION
    if [[ ! -f $venv/complete ]]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "openai==$OPENAI_VERSION"
        touch "$venv/complete"
    fi
    export IDLEWILD_PYTHON=$venv/bin/python
    if [[ -n ${CI:-} ]] || unshare --net true 2>/dev/null; then
        export IDLEWILD_REQUIRE_NETNS=1
    else
        echo "SKIPPED: tests in network namespaces (not allowed here; run this as root)" >&2
    fi
else
    selection=(--filterset 'not package(idlewild-tests) or binary(tidy)')
fi

if [[ $scope == deep ]]; then
    step "Properties"
    for _ in {1..20}; do
        export PROPTEST_RNG_SEED=$SRANDOM
        echo "PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED" >&2
        cargo nextest run --release --locked --workspace --status-level fail --final-status-level fail \
            --filterset 'not package(idlewild-tests) and not test(llama_)'
    done
    finished
    exit
fi

step "Examples in documentation"
cargo test --quiet --release --locked --workspace --doc

step "Tests"
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
cargo nextest run --release --locked --workspace "${selection[@]}" 2>&1 | tee "$summary"

if [[ $scope == all ]]; then
    step "The README's first command"
    unset IDLEWILD_TEST_MODEL IDLEWILD_TEST_MODEL_GEMMA IDLEWILD_REQUIRE_MODELS IDLEWILD_PYTHON \
        IDLEWILD_REQUIRE_NETNS IDLEWILD_BIN
    IDLEWILD_CACHE=$(cache_dir) "$repo/packaging/quickstart.sh"
fi
finished
passed=$(sed -n 's/.*tests\{0,1\} run: \([0-9]*\) passed.*/\1/p' "$summary" | tail -n 1)
printf '%s passed, 0 failed\n' "${passed:-0}"
