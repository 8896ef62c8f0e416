// Whoever starts Claude Code through `waybill host`, for claude_stream_live.sh.
//
//   node claude_stream_live.mjs WAYBILL DIRECTORY COMMAND…

import { execFile, execFileSync, spawn } from 'node:child_process';
import readline from 'node:readline';
import { promisify } from 'node:util';

const [waybill, directory, ...command] = process.argv.slice(2);
const capMs = 30000;
let failed = 0;
function check(name, ok, detail = '') {
  if (!ok) failed += 1;
  console.log(`${ok ? 'PASS' : 'FAIL'} ${name}${ok ? '' : ` ${detail}`}`);
}

const host = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
const seen = [];
let watchers = [];
readline.createInterface({ input: host.stdout }).on('line', (line) => {
  seen.push(JSON.parse(line));
  for (const watcher of [...watchers]) watcher();
});
const ended = new Promise((ok) => host.on('exit', ok));

function until(what, fits, from = 0) {
  return new Promise((ok, no) => {
    const look = () => {
      const found = seen.slice(from).find(fits);
      if (!found) return;
      watchers = watchers.filter((one) => one !== look);
      ok(found);
    };
    watchers.push(look);
    setTimeout(() => no(new Error(`no ${what}; last: ${JSON.stringify(seen.slice(-3))}`)), capMs).unref();
    look();
  });
}

const say = (text) => host.stdin.write(`${JSON.stringify({ type: 'user', message: { role: 'user',
  content: [{ type: 'text', text }] }, parent_tool_use_id: null })}\n`);
const start = (object) => `START ${JSON.stringify(object)}`;
function cli(...words) {
  const at = words.includes('--') ? words.indexOf('--') : words.length;
  return JSON.parse(execFileSync(waybill, [...words.slice(0, at), '--json', ...words.slice(at)]));
}
const open = (path) => promisify(execFile)('/bin/sh', ['-c', `echo go > '${path}'`]);
const fifo = (name) => { execFileSync('mkfifo', [`${directory}/${name}`]); return `${directory}/${name}`; };
const result = (message) => message.type === 'result';

async function eventOnce(session, job, fits) {
  for (;;) {
    const { revision } = cli('session', 'show', '--session', session).session;
    const event = cli('show', '--session', session, job).job.events[0];
    if (event && fits(event)) return event;
    await promisify(execFile)(waybill, ['session', 'wait', '--session', session, '--revision', String(revision),
      '--timeout', '20s']);
  }
}

async function main() {
  const one = fifo('one');
  say(start({ command: `read -r go < '${one}'; echo MARK-ONE`, yield_ms: 0 }));
  const first = await until('end of the first turn', result);
  const session = `claude-${first.session_id}`;
  const [job] = cli('list', '--session', session).jobs;
  check('the tool call began a job of the session', job?.status === 'running', JSON.stringify(job ?? first));
  let from = seen.length;
  await open(one);
  const woken = await until('turn by itself', result, from);
  check('an idle client is woken and its model has read the notice',
    woken.result.includes(`${job.id}.completed.1`) && woken.result.includes('MARK-ONE'), woken.result);
  const event = await eventOnce(session, job.id, (it) => it.state === 'acked');
  check('the end of that turn acknowledges', event.acked_as === 'processed', JSON.stringify(event));

  const two = fifo('two');
  from = seen.length;
  say(start({ command: `read -r go < '${two}'; echo MARK-TWO`, yield_ms: 60000 }));
  await until('tool call', (message) => message.type === 'assistant'
    && JSON.stringify(message).includes('tool_use'), from);
  const other = cli('run', '--session', session, '--', 'echo MARK-STEER').job.id;
  if (!process.env.HOOKS) {  // hooks put it in at the next step instead
    const taken = await eventOnce(session, other, (it) => it.state !== 'pending' && it.state !== 'offered');
    check('what ends while a turn runs is put into it', taken.state === 'accepted', JSON.stringify(taken));
  }
  await open(two);
  const end = await until('end of the steered turn', result, from);
  check('the same turn has read it', end.result.includes(`${other}.completed.1`)
    && end.result.includes('MARK-STEER'), end.result);
  const steered = await eventOnce(session, other, (it) => it.state === 'acked');
  check('its end acknowledges', steered.acked_as === 'processed', JSON.stringify(steered));
  host.stdin.end();
  check('the exit code is the client\'s', await ended === 0);
  check('no other turn ran', seen.filter(result).length === 3, String(seen.filter(result).length));
}

main().catch((error) => { check('run', false, error.stack); }).finally(() => {
  host.kill();
  process.exit(failed ? 1 : 0);
});
