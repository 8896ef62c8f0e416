#!/usr/bin/env bash
# Everything that is seen with real agents and official clients, offline. By name only.
#
#   tests/clients/live.sh DIR [WAYBILL]
#
# DIR holds what is installed, a folder each with its node_modules (what is missing is skipped):
#   claude/  claude2/   @anthropic-ai/claude-code, two versions
#   codex/              @openai/codex
#   sdk/                @modelcontextprotocol/sdk, @modelcontextprotocol/client, …/inspector
# Needs node, tmux and python3. Prints PASS and FAIL lines; exits with 1 when one failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { sed -n '2,11p' "$0" >&2; exit 2; }
dir=$(realpath "$1")
waybill=$(realpath "${2:-$here/../../build/waybill}")
failed=0
for name in claude claude2; do
  [ -x "$dir/$name/node_modules/.bin/claude" ] || { echo "SKIP  $name is not in $dir"; continue; }
  python3 "$here/live.py" "$waybill" claude "$dir/$name/node_modules/.bin/claude" || failed=1
  bash "$here/claude_stream_live.sh" "$dir/$name" "$waybill" || failed=1
done
if [ -x "$dir/codex/node_modules/.bin/codex" ]; then
  python3 "$here/live.py" "$waybill" codex "$dir/codex/node_modules/.bin/codex" || failed=1
  bash "$here/codex_live.sh" "$dir/codex" "$waybill" || failed=1
else
  echo "SKIP  codex is not in $dir"
fi
if [ -d "$dir/sdk/node_modules" ]; then
  node "$here/mcp_sdk.mjs" "$dir/sdk/node_modules" "$waybill" || failed=1
else
  echo "SKIP  sdk is not in $dir"
fi
exit "$failed"
