#!/usr/bin/env bash
# The real Codex, its app-server and a scripted model: an idle thread is woken with the result of a
# job, a running one is steered with it. Not part of the suite: Codex has to be installed.
#
#   codex_live.sh DIRECTORY [WAYBILL]      DIRECTORY/node_modules/.bin/codex
#
# Prints PASS and FAIL lines; exits with 1 when one failed. Homes are temporary.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { echo "usage: codex_live.sh DIRECTORY [WAYBILL]" >&2; exit 2; }
codex=$(realpath "$1")/node_modules/.bin/codex
waybill=$(realpath "${2:-$here/../../build/waybill}")
dir=$(mktemp -d)
mkdir -p "$dir/home/.codex" "$dir/tmp" "$dir/work"
clean() {
  env -i PATH="$(dirname "$(command -v node)"):/usr/bin:/bin" HOME="$dir/home" TMPDIR="$dir/tmp" \
    CODEX_HOME="$dir/home/.codex" WAYBILL_DATA="$dir/data" FAKE_KEY=none TERM=dumb LANG=C.UTF-8 CI=1 \
    DISABLE_TELEMETRY=1 "$@"
}
children=()
finish() {
  clean "$waybill" shutdown --stop-jobs >/dev/null 2>&1
  [ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null
  wait
  [ -n "${KEEP:-}" ] && echo "kept: $dir" || rm -rf "$dir"
}
trap finish EXIT

mkfifo "$dir/port"
node "$here/fake_model.mjs" "$dir/model.log" >"$dir/port" &
children+=($!)
read -r port <"$dir/port"
cat >"$dir/home/.codex/config.toml" <<T
model = "fake"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:$port/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[mcp_servers.waybill]
command = "$waybill"
args = ["mcp", "--data", "$dir/data"]
default_tools_approval_mode = "approve"
T
cd "$dir/work" || exit 1
clean timeout 120 "$codex" app-server --listen "unix://$dir/app.sock" \
  </dev/null >"$dir/app-server.log" 2>&1 &
children+=($!)
clean timeout 100 node "$here/codex_live.mjs" "$dir/app.sock" "$waybill" "$dir"
