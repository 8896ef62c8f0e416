// The owner of a Codex thread, for codex_live.sh: starts a thread and turns on an app-server, and
// looks at what Waybill, another client of it, does to them.
//
//   node codex_live.mjs SOCKET WAYBILL DIRECTORY

import { execFileSync, execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { promisify } from 'node:util';

const [socketPath, waybill, directory] = process.argv.slice(2);
const capMs = 20000;
let failed = 0;
function check(name, ok, detail = '') {
  if (!ok) failed += 1;
  console.log(`${ok ? 'PASS' : 'FAIL'} ${name}${ok ? '' : ` ${detail}`}`);
}

async function untilThere(path) {
  if (fs.existsSync(path)) return;
  await new Promise((ok, no) => {
    const watch = fs.watch(directory, () => { if (fs.existsSync(path)) { watch.close(); ok(); } });
    setTimeout(() => no(new Error(`${path} does not come`)), capMs).unref();
    if (fs.existsSync(path)) { watch.close(); ok(); }
  });
}

// One JSON message per WebSocket text frame.
class Peer {
  constructor(stream) {
    Object.assign(this, { stream, last: 0, waiting: new Map(), seen: [], watchers: [], bytes: Buffer.alloc(0) });
    stream.on('data', (chunk) => { this.bytes = Buffer.concat([this.bytes, chunk]); this.frames(); });
  }
  static open(path) {
    return new Promise((ok, no) => {
      const request = http.request({ socketPath: path, path: '/', headers: { Host: 'localhost',
        Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': randomBytes(16).toString('base64') } });
      request.on('upgrade', (_, stream, head) => {
        const peer = new Peer(stream);
        if (head.length) stream.unshift(head);
        ok(peer);
      });
      request.on('error', no).end();
    });
  }
  frames() {
    for (;;) {
      if (this.bytes.length < 2) return;
      let [length, at] = [this.bytes[1] & 127, 2];
      if (length === 126) {
        if (this.bytes.length < 4) return;
        [length, at] = [this.bytes.readUInt16BE(2), 4];
      } else if (length === 127) {
        if (this.bytes.length < 10) return;
        [length, at] = [Number(this.bytes.readBigUInt64BE(2)), 10];
      }
      if (this.bytes.length < at + length) return;
      const kind = this.bytes[0] & 15;
      const body = this.bytes.subarray(at, at + length);
      this.bytes = this.bytes.subarray(at + length);
      if (kind === 1) this.take(JSON.parse(body.toString()));
    }
  }
  take(message) {
    if (message.method === undefined) {
      this.waiting.get(message.id)?.(message);
      return;
    }
    this.seen.push(message);
    for (const watcher of [...this.watchers]) watcher();
  }
  send(message) {
    const data = Buffer.from(JSON.stringify(message));
    const mask = randomBytes(4);
    const head = data.length < 126 ? Buffer.from([0x81, 0x80 | data.length])
      : Buffer.from([0x81, 0xfe, data.length >> 8, data.length & 255]);
    this.stream.write(Buffer.concat([head, mask, data.map((byte, i) => byte ^ mask[i & 3])]));
  }
  call(method, params) {
    const id = ++this.last;
    this.send({ id, method, params });
    return new Promise((ok) => this.waiting.set(id, ok));
  }
  // The first notification from `from` on that fits.
  until(what, fits, from = 0) {
    return new Promise((ok, no) => {
      const look = () => {
        const found = this.seen.slice(from).find(fits);
        if (!found) return;
        this.watchers = this.watchers.filter((one) => one !== look);
        ok(found);
      };
      this.watchers.push(look);
      setTimeout(() => no(new Error(`no ${what}`)), capMs).unref();
      look();
    });
  }
}

const input = (text) => [{ type: 'text', text, text_elements: [] }];
function cli(...words) {
  const at = words.includes('--') ? words.indexOf('--') : words.length;
  return JSON.parse(execFileSync(waybill, [...words.slice(0, at), '--json', '--data', `${directory}/data`,
    ...words.slice(at)]));
}
const open = (fifo) => promisify(execFile)('/bin/sh', ['-c', `echo go > '${fifo}'`]);
const fifo = (name) => { execFileSync('mkfifo', [`${directory}/${name}`]); return `${directory}/${name}`; };
const start = (object) => `START ${JSON.stringify(object)}`;

// The job's only event, once it is acknowledged.
async function acknowledged(session, job) {
  for (;;) {
    const revision = cli('session', 'show', '--session', session).session.revision;
    const event = cli('show', '--session', session, job).job.events[0];
    if (event?.acked_as) return event;
    await promisify(execFile)(waybill, ['session', 'wait', '--session', session, '--revision', String(revision),
      '--timeout', '20s', '--data', `${directory}/data`]);
  }
}

async function main() {
  await untilThere(socketPath);
  const codex = await Peer.open(socketPath);
  await codex.call('initialize', { clientInfo: { name: 'owner', version: '0' }, capabilities: { experimentalApi: true } });
  codex.send({ method: 'initialized' });
  const started = await codex.call('thread/start', { cwd: process.cwd(), approvalPolicy: 'never', sandbox: 'read-only' });
  const threadId = started.result.thread.id;
  const session = `codex-${threadId}`;
  const said = (message) => message.method === 'item/completed' && message.params.item.type === 'agentMessage';
  const over = (message) => message.method === 'turn/completed';

  const one = fifo('one');
  const first = await codex.call('turn/start', { threadId,
    input: input(start({ command: `read -r go < '${one}'; echo MARK-ONE`, yield_ms: 0 })) });
  await codex.until('end of the first turn', over);
  const [job] = cli('list', '--session', session).jobs;
  check('the tool call began a job of the thread', job?.status === 'running', JSON.stringify(job));
  let from = codex.seen.length;
  await open(one);
  const woken = await codex.until('turn by itself', (message) => message.method === 'turn/started', from);
  check('an idle thread is woken', woken.params.turn.id !== first.result.turn.id);
  const answer = await codex.until('answer of the woken turn', said, from);
  check('the model of the woken turn has read the notice', answer.params.item.text.includes(`${job.id}.completed.1`)
    && answer.params.item.text.includes('MARK-ONE'), answer.params.item.text);
  const event = await acknowledged(session, job.id);
  check('the event is acknowledged as accepted', event.acked_as === 'accepted', JSON.stringify(event));
  await codex.until('end of the woken turn', over, from);

  const two = fifo('two');
  from = codex.seen.length;
  const busy = await codex.call('turn/start', { threadId,
    input: input(start({ command: `read -r go < '${two}'; echo MARK-TWO`, yield_ms: 60000 })) });
  await codex.until('tool call', (message) => message.method === 'item/started'
    && message.params.item.type === 'mcpToolCall', from);
  const other = cli('run', '--session', session, '--', 'echo MARK-STEER').job.id;
  const steered = await acknowledged(session, other);
  check('what ends while a turn runs is acknowledged as accepted', steered.acked_as === 'accepted', JSON.stringify(steered));
  await open(two);
  const end = await codex.until('answer of the steered turn', said, from);
  check('the same turn has read it', end.params.turnId === busy.result.turn.id
    && end.params.item.text.includes(`${other}.completed.1`) && end.params.item.text.includes('MARK-STEER'), JSON.stringify(end.params));
  await codex.until('end of the steered turn', over, from);
  check('no further turn began', codex.seen.slice(from).filter((message) => message.method === 'turn/started').length === 1);
}

main().catch((error) => { check('run', false, error.stack); }).finally(() => process.exit(failed ? 1 : 0));
