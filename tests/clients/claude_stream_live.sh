#!/usr/bin/env bash
# The real Claude Code below `waybill host`, and a scripted model: woken when idle, steered while a
# tool runs, each acknowledged when its turn has ended. Not part of the suite: Claude Code has to be
# installed.
#
#   claude_stream_live.sh DIRECTORY [WAYBILL]      DIRECTORY/node_modules/.bin/claude
#
# HOOKS=1 sets Waybill's hooks up as well. Prints PASS and FAIL lines; exits with 1 when one failed.
# Homes are temporary.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { echo "usage: claude_stream_live.sh DIRECTORY [WAYBILL]" >&2; exit 2; }
claude=$(realpath "$1")/node_modules/.bin/claude
waybill=$(realpath "${2:-$here/../../build/waybill}")
dir=$(mktemp -d)
mkdir -p "$dir/home/.claude" "$dir/tmp" "$dir/work"
children=()
clean() {
  env -i PATH="$(dirname "$waybill"):$(dirname "$claude"):$(dirname "$(command -v node)"):/usr/bin:/bin" \
    HOME="$dir/home" TMPDIR="$dir/tmp" WAYBILL_DATA="$dir/data" TERM=dumb LANG=C.UTF-8 CI=1 \
    ANTHROPIC_BASE_URL="http://127.0.0.1:$port" ANTHROPIC_API_KEY=sk-ant-none ANTHROPIC_MODEL=claude-fake \
    ENABLE_TOOL_SEARCH=false CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 \
    DISABLE_TELEMETRY=1 IS_SANDBOX=1 HOOKS="${HOOKS:-}" "$@"
}
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
echo "{\"mcpServers\":{\"waybill\":{\"command\":\"$waybill\",\"args\":[\"mcp\"]}}}" >"$dir/mcp.json"
more=(--mcp-config "$dir/mcp.json" --strict-mcp-config)
[ -z "${HOOKS:-}" ] || { clean "$waybill" setup claude --apply >"$dir/setup.log" 2>&1 || cat "$dir/setup.log"; }
cd "$dir/work" || exit 1
clean timeout 120 node "$here/claude_stream_live.mjs" "$waybill" "$dir" \
  "$waybill" host claude -- "$claude" -p --input-format stream-json --output-format stream-json --verbose \
  "${more[@]}" --allowedTools mcp__waybill__start
