#!/usr/bin/env bash
# What the agent costs over the bare engine, while nobody asks anything, and its owner while it works. Needs root (network namespaces)
# and a machine with nothing else to do.
#
#   tests/bench.sh                      all of it, about forty minutes
#   tests/bench.sh decode idle ...      some parts: decode, first-token, idle, gossip, moves, evacuation, presence (25
#                                       minutes of it), courtesy
#
# Figures are medians; where two things are compared they ran in turns, pair by pair.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
# shellcheck source=packaging/steps.sh
source "$repo/packaging/steps.sh"
cd "$repo"

# These would replace the flags in .cargo/config.toml, and with them the vector instructions.
unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
CARGO_TARGET_DIR=$(target_dir)
export CARGO_TARGET_DIR

install_packages xvfb xdotool dbus mutter python3-dbusmock python3-gi
cargo build --quiet --release --locked --workspace
IDLEWILD_BIN=${IDLEWILD_BIN:-$(built_program)}
IDLEWILD_TEST_MODEL=${IDLEWILD_TEST_MODEL:-$(fetch_model)}
export IDLEWILD_BIN IDLEWILD_TEST_MODEL
exec "$CARGO_TARGET_DIR/release/idlewild-bench" "$@"
