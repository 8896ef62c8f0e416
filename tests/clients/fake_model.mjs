// A model that is a script, for real clients that are to finish a run offline: OpenAI Responses and
// Anthropic Messages, on 127.0.0.1.
//
//   node fake_model.mjs [LOG]        prints its port; one line of JSON per request goes to LOG
//
// What it answers follows from the request alone. Does the newest user text hold lines START {…}: it
// calls waybill's `start` with these objects, one after the other's result. Otherwise it says which
// event ids of waybill (j….….n) and which MARK-… words it has seen in texts of users, systems,
// developers and tools.

import fs from 'node:fs';
import http from 'node:http';

const log = process.argv[2];
const flat = (part) => typeof part === 'string' ? part
  : Array.isArray(part) ? part.map(flat).join('\n')
    : part && typeof part === 'object' ? flat(part.text ?? part.content ?? part.output ?? '') : '';

// The request as [{from: 'user' | 'tool' | 'model', text}], oldest first.
function texts(body) {
  if (body.input !== undefined) {
    return [body.input].flat().map((item) => ({
      from: /_output$/.test(item.type ?? '') ? 'tool'
        : ['user', 'system', 'developer'].includes(item.role) ? item.role : 'model',
      text: flat(item.output ?? item.content ?? ''),
    }));
  }
  return (body.messages ?? []).flatMap((message) => {
    if (message.role === 'assistant') return [{ from: 'model', text: flat(message.content) }];
    return [message.content].flat().map((part) => ({
      from: part?.type === 'tool_result' ? 'tool' : message.role, text: flat(part),
    }));
  });
}

function startTool(body) {
  for (const tool of body.tools ?? []) {
    if (tool.type === 'namespace' && /waybill/.test(tool.name)) {
      const inner = tool.tools.find((one) => one.name === 'start');
      if (inner) return { name: inner.name, namespace: tool.name };
    }
    if (/waybill.*start$/.test(tool.name ?? '')) return { name: tool.name };
  }
  return null;
}

function plan(body) {
  const all = texts(body);
  let orders = [];
  for (const one of all) {
    const given = one.from === 'user' ? [...one.text.matchAll(/^START (\{.*\})/gm)] : [];
    if (given.length > 0) orders = given.map((order) => order[1]);
    if (one.from === 'tool') orders.shift();
  }
  const call = orders[0] ?? null;
  const seen = new Set();
  for (const one of all) {
    if (one.from === 'model') continue;
    for (const [word] of one.text.matchAll(/j[0-9a-z]{10,}\.[a-z_]+\.\d+|MARK-[A-Z0-9]+/g)) seen.add(word);
  }
  const tool = startTool(body);
  return { call: call && tool ? { ...tool, arguments: JSON.parse(call) } : null,
    text: `SEEN ${[...seen].join(' ')}` };
}

function events(response, list) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of list) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
}

function openai(response, id, { call, text }) {
  const item = call
    ? { type: 'function_call', id: `fc_${id}`, call_id: `call_${id}`, name: call.name,
      ...(call.namespace ? { namespace: call.namespace } : {}), arguments: JSON.stringify(call.arguments) }
    : { type: 'message', id: `msg_${id}`, role: 'assistant',
      content: [{ type: 'output_text', text, annotations: [] }] };
  const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1,
    output_tokens_details: null, total_tokens: 2 };
  events(response, [
    { type: 'response.created', response: { id: `resp_${id}` } },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { id: `resp_${id}`, status: 'completed', output: [item], usage } },
  ]);
}

function anthropic(response, id, body, { call, text }) {
  const block = call ? { type: 'tool_use', id: `toolu_${id}`, name: call.name, input: call.arguments }
    : { type: 'text', text };
  const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model: body.model, content: [block],
    stop_reason: call ? 'tool_use' : 'end_turn', stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 } };
  if (!body.stream) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(message));
    return;
  }
  events(response, [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0,
      content_block: call ? { ...block, input: {} } : { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0,
      delta: call ? { type: 'input_json_delta', partial_json: JSON.stringify(call.arguments) }
        : { type: 'text_delta', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: message.stop_reason, stop_sequence: null },
      usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ]);
}

let requests = 0;
const server = http.createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => { body += chunk; });
  request.on('end', () => {
    const path = request.url.split('?')[0];
    const id = ++requests;
    const call = request.method === 'POST' && /\/(responses|messages)$/.test(path);
    const parsed = call ? JSON.parse(body) : {};
    const planned = call ? plan(parsed) : null;
    if (log && call) {
      fs.appendFileSync(log, JSON.stringify({ id, path, planned, tools: (parsed.tools ?? []).length,
        last: texts(parsed).slice(-4) }) + '\n');
    }
    if (/\/responses$/.test(path) && call) return openai(response, id, planned);
    if (/\/messages$/.test(path) && call) return anthropic(response, id, parsed, planned);
    response.writeHead(/models|count_tokens/.test(path) ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ object: 'list', data: [], models: [], input_tokens: 1 }));
    return undefined;
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
