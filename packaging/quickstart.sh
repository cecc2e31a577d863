#!/usr/bin/env bash
# Builds Idlewild and shows it on this machine: three peers, one private swarm, one question, one answer.
#
#   packaging/quickstart.sh            builds, starts the peers, asks, explains, stops the peers
#   packaging/quickstart.sh --keep     leaves the peers up
#   packaging/quickstart.sh --stop     stops what --keep left up
#   packaging/quickstart.sh --ask "A question of your own"
#
# For Debian 12 (and its like), as root or with sudo, which only installing packages needs. What is built and fetched is
# kept in ${IDLEWILD_CACHE:-~/.cache/idlewild}; running it again takes seconds. Exit code: 0 if the answer came.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
# shellcheck source=packaging/steps.sh
source "$here/steps.sh"

keep=no
question="What is the capital of France, and what is it known for?"
while (($# > 0)); do
    case $1 in
        --keep) keep=yes ;;
        --stop) keep=stop ;;
        --ask)
            (($# > 1)) || fail "--ask needs a question" "packaging/quickstart.sh --ask \"Why is the sky blue?\""
            question=$2
            shift
            ;;
        --help | -h)
            sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        *) fail "unknown option $1" "see packaging/quickstart.sh --help" ;;
    esac
    shift
done

cluster="$(cache_dir)/quickstart"
# The name that the import gives it: the file's.
model=smollm2-135m-instruct.q4_1

if [[ $keep == stop ]]; then
    program=$(built_program)
    [[ -x $program ]] || fail "nothing is built yet, so nothing can be running" "run packaging/quickstart.sh first"
    exec "$program" dev stop --dir "$cluster"
fi

step "Packages that the build needs"
install_packages g++ make cmake pkg-config libclang-dev ca-certificates

step "Rust toolchain"
require_rust "$repo"

step "Release build (about ten minutes the first time)"
(cd "$repo" && CARGO_TARGET_DIR="$(target_dir)" cargo build --release --locked --package idlewild)
program=$(built_program)

step "Model SmolLM2-135M-Instruct (98 MB, once), into this user's model store"
file=$(fetch_model)
# Where there is no home to keep a store in, one beside the rest of the cache does.
store=()
if [[ -z ${IDLEWILD_HOME:-} && ! -w ${HOME:-} ]]; then
    store=(--home "$(cache_dir)/home")
fi
"$program" "${store[@]}" models import "$file" --name "$model"

step "Three peers on this machine; peer-1 takes no work and has no model"
# A cluster of an earlier run is replaced: it may be of an older build.
if "$program" dev stop --dir "$cluster" >/dev/null 2>&1; then
    rm -rf -- "$cluster"
fi
if [[ $keep == no ]]; then
    trap '"$program" dev stop --dir "$cluster" >/dev/null || true' EXIT
else
    trap 'printf "The peers stay up. Stop them:  packaging/quickstart.sh --stop\n" >&2' EXIT
fi
"$program" "${store[@]}" dev cluster --dir "$cluster" --peers 3 --busy 1 --model "$model" --keep

step "peer-1 asks: $question"
"$program" run --home "$cluster/peer-1" --max-tokens 160 --temperature 0 "$question"

step "Who answered, and why"
"$program" explain --home "$cluster/peer-1"

if [[ $keep == yes ]]; then
    trap - EXIT
    step "The peers stay up"
    cat <<WORDS
Ask again:  $program run --home $cluster/peer-1 "Why is the sky blue?"
Look on:    $program status --home $cluster/peer-1
Stop them:  packaging/quickstart.sh --stop
WORDS
else
    step "Stopping the peers"
    trap - EXIT
    "$program" dev stop --dir "$cluster"
fi
finished
