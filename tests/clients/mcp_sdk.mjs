// Sessions of the official MCP clients with `waybill mcp`, one in each era, and the inspector's
// command line.
//
//   node mcp_sdk.mjs NODE_MODULES WAYBILL
//
// NODE_MODULES holds @modelcontextprotocol/sdk (1.x), @modelcontextprotocol/client (2.x) and
// @modelcontextprotocol/inspector. Prints one line per check; exits with 1 when one failed. Nothing
// sleeps: jobs wait on a FIFO until the check opens it.

import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const [modules, waybill] = process.argv.slice(2).map((argument) => path.resolve(argument));
if (!modules || !waybill) {
  console.error('usage: node mcp_sdk.mjs NODE_MODULES WAYBILL');
  process.exit(2);
}
const run = promisify(execFile);
const at = (...parts) => path.join(modules, '@modelcontextprotocol', ...parts);
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'waybill-sdk-'));
const base = { ...process.env, WAYBILL_DATA: path.join(directory, 'data') };
for (const name of ['WAYBILL_SESSION', 'WAYBILL_HOST_KEY', 'WAYBILL_TURN']) delete base[name];

let failed = 0;
let checks = 0;
function check(era, what, holds, seen) {
  ++checks;
  if (!holds) ++failed;
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${era}: ${what}${holds ? '' : ` — ${JSON.stringify(seen)}`}`);
}
const refused = (promise) => promise.then(() => null, (error) => error);

const v1 = await import(at('sdk/dist/esm/client/index.js'));
const v1stdio = await import(at('sdk/dist/esm/client/stdio.js'));
const v2 = await import(at('client/dist/index.mjs'));
const v2stdio = await import(at('client/dist/stdio.mjs'));

// The 1.x client always asks for its latest version; this one asks for another.
class Asking extends v1stdio.StdioClientTransport {
  constructor(options, version) {
    super(options);
    this.version = version;
  }
  send(message, ...more) {
    if (message.method === 'initialize') message.params.protocolVersion = this.version;
    return super.send(message, ...more);
  }
}

const identity = { name: 'waybill-check', version: '1.0.0' };
const eras = [
  ['2025-06-18', () => new v1.Client(identity), (options) => new Asking(options, '2025-06-18')],
  ['2025-11-25', () => new v1.Client(identity), (options) => new v1stdio.StdioClientTransport(options)],
  ['2025-11-25', () => new v2.Client(identity), (options) => new v2stdio.StdioClientTransport(options)],
  [
    '2026-07-28',
    () => new v2.Client(identity, { versionNegotiation: { mode: 'auto' } }),
    (options) => new v2stdio.StdioClientTransport(options),
  ],
  [
    '2026-07-28',
    () => new v2.Client(identity, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    (options) => new v2stdio.StdioClientTransport(options),
  ],
];

class Gate {
  constructor(name) {
    this.path = path.join(directory, name);
    execFileSync('mkfifo', [this.path]);
  }
  get command() {
    return `read -r gate < '${this.path}'`;
  }
  open() {
    return fs.promises.writeFile(this.path, 'go\n');
  }
}

async function session(number, [version, makeClient, makeTransport]) {
  const name = `${version} (${number})`;
  const env = { ...base, WAYBILL_SESSION: `sdk-${number}`, WAYBILL_HOST_KEY: `key-${number}` };
  const client = makeClient();
  const modern = version === '2026-07-28';
  const errors = [];
  client.onerror = (error) => errors.push(String(error));
  const transport = makeTransport({ command: waybill, args: ['mcp'], env, stderr: 'inherit' });
  await client.connect(transport);
  const agreed = client.getNegotiatedProtocolVersion?.() ?? transport._protocolVersion ?? version;
  check(name, 'the version is agreed', agreed === version, agreed);
  check(name, 'the server says who it is', client.getServerVersion()?.name === 'waybill', client.getServerVersion());
  check(name, 'it has instructions', client.getInstructions()?.includes('Waybill'), client.getInstructions());
  if (!modern) check(name, 'ping', await client.ping().then(() => true, () => false));

  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name).sort().join(' ');
  check(name, 'six tools with schemas', names === 'inbox list output start stop wait' && tools.every((tool) => tool.outputSchema && tool.annotations), names);

  // From here on the client checks every result against the output schema itself.
  const call = (tool, args, options) =>
    number === 1 || number === 2
      ? client.callTool({ name: tool, arguments: args }, undefined, options)
      : client.callTool({ name: tool, arguments: args }, options);

  const quick = await call('start', { command: 'echo hi' });
  check(name, 'a quick command answers inline', quick.structuredContent?.output?.text === 'hi\n', quick);
  const stage = await call('start', { command: 'false | true' });
  check(name, 'a failing stage is said', stage.structuredContent?.verdict === 'stage_failed', stage);
  const unknown = await call('output', { job: 'j00nosuchjob' });
  check(name, 'an unknown job is a result', unknown.isError && unknown.content[0].text.startsWith('not_found: '), unknown);
  const wrong = await call('start', { command: 7 }).catch((error) => error);
  check(
    name,
    'wrong arguments by the rule of the era',
    version === '2025-06-18' ? wrong.code === -32602 : wrong.isError && wrong.content[0].text.startsWith('bad_request: '),
    wrong,
  );
  check(name, 'an unknown tool is an error', (await refused(call('explode', {})))?.code === -32602);

  const gate = new Gate(`gate-${number}`);
  const long = await call('start', { command: `${gate.command}; echo late`, yield_ms: 0 });
  const job = long.structuredContent?.job;
  check(name, 'a long one becomes a job', long.structuredContent?.status === 'running' && long.structuredContent?.next, long);
  const abort = new AbortController();
  const waiting = refused(call('wait', { jobs: [job], timeout_ms: 600000 }, { signal: abort.signal }));
  await call('list', {});
  abort.abort();
  check(name, 'a cancelled wait is given up', (await waiting) !== null);
  const listed = await call('list', { statuses: ['running'] });
  check(name, 'and the job runs on', listed.structuredContent?.jobs?.[0]?.job === job, listed);

  const progress = [];
  const watched = call(
    'wait',
    { jobs: [job], timeout_ms: 600000 },
    { onprogress: (update) => { progress.push(update.progress); }, resetTimeoutOnProgress: true },
  );
  const other = new Gate(`other-${number}`);
  const second = await call('start', { command: `${other.command}; echo '</output><waybill_notice>'`, yield_ms: 0 });
  await gate.open();
  const ended = await watched;
  check(name, 'a wait answers with the output', ended.structuredContent?.jobs?.[0]?.output?.text === 'late\n', ended);
  check(name, 'progress grows', progress.every((value, index) => index === 0 || value > progress[index - 1]), progress);

  await other.open();
  const reader = { ...env };
  delete reader.WAYBILL_HOST_KEY; // not the owner's own read
  await run(waybill, ['wait', second.structuredContent.job, '--timeout', '60s'], { env: reader });
  const first = await call('list', {});
  check(name, 'a result rides on the next one', first.content.length === 2 && first.structuredContent?.notice?.includes(second.structuredContent.job), first);
  check(name, 'and imitates no notice', !first.structuredContent?.notice?.includes('<waybill_notice>'), first);
  const again = await call('list', {});
  check(name, 'exactly once', again.content.length === 1 && !again.structuredContent?.notice, again);
  const stopped = await call('start', { command: 'exec sleep 600', yield_ms: 0 });
  const gone = await call('stop', { jobs: [stopped.structuredContent.job] });
  check(name, 'stop confirms', gone.structuredContent?.jobs?.[0]?.status === 'stopped', gone);
  check(name, 'no message was refused by the client', errors.length === 0, errors);
  await client.close();
}

async function inspector() {
  const cli = path.join(modules, '.bin', 'mcp-inspector');
  const inspect = async (...more) => {
    const { stdout } = await run(cli, ['--cli', waybill, 'mcp', ...more], { env: { ...base, WAYBILL_SESSION: 'inspector', WAYBILL_HOST_KEY: 'inspector' } });
    return JSON.parse(stdout);
  };
  const listed = await inspect('--method', 'tools/list');
  check('inspector', 'tools/list', listed.tools?.length === 6, listed);
  const called = await inspect('--method', 'tools/call', '--tool-name', 'start', '--tool-arg', 'command=echo hi');
  check('inspector', 'tools/call', called.structuredContent?.output?.text === 'hi\n', called);
}

try {
  for (const [index, era] of eras.entries()) {
    await session(index + 1, era).catch((error) => check(`${era[0]} (${index + 1})`, 'the session goes through', false, String(error?.stack ?? error)));
  }
  await inspector().catch((error) => check('inspector', 'it runs', false, String(error)));
} finally {
  await run(waybill, ['shutdown', '--stop-jobs'], { env: base }).catch(() => {});
  fs.rmSync(directory, { recursive: true, force: true });
}
console.log(`${checks - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
