// Real clients against a running server: node clients.mjs URL MODEL. No client is patched.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';

const [url, model] = process.argv.slice(2);
const messages = [{ role: 'user', content: 'Hello, who are you?' }];
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 20 } },
  required: ['city'],
  additionalProperties: false,
};

async function openai() {
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
  assert.equal((await client.models.list()).data[0].id, model);
  const ask = { model, messages, temperature: 0, max_tokens: 16 };
  const whole = await client.chat.completions.create(ask);
  const text = whole.choices[0].message.content;
  assert.ok(text.length > 0);

  let streamed = '', usage;
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
    streamed += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(streamed, text);
  assert.deepEqual(usage, whole.usage);

  const known = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
  assert.equal(known.choices[0].logprobs.content.map((t) => t.token).join(''), text);

  const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters } }];
  const weather = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const called = await client.chat.completions.create({ ...ask, messages: weather, tools, tool_choice: 'required', max_tokens: 100 });
  const call = called.choices[0].message.tool_calls[0];
  assert.equal(called.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.function.name, 'get_weather');
  assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
  const told = await client.chat.completions.create({
    ...ask, tools,
    messages: [...weather, called.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }],
  });
  assert.ok(told.choices[0].message);
  const runner = client.chat.completions.stream({ ...ask, messages: weather, tools, tool_choice: 'required', max_tokens: 100 });
  assert.deepEqual((await runner.finalChatCompletion()).choices[0].message.tool_calls[0].function.name, 'get_weather');

  const held = await client.chat.completions.create({
    ...ask, max_tokens: 100,
    response_format: { type: 'json_schema', json_schema: { name: 'place', schema: parameters, strict: true } },
  });
  assert.equal(typeof JSON.parse(held.choices[0].message.content).city, 'string');

  const completion = await client.completions.create({ model, prompt: 'Hello', max_tokens: 4, temperature: 0, echo: true, logprobs: 1 });
  assert.ok(completion.choices[0].text.startsWith('Hello'));
  const vectors = await client.embeddings.create({ model, input: ['one', 'two'] });
  assert.equal(vectors.data.length, 2);
  assert.ok(Math.abs(vectors.data[0].embedding.reduce((s, v) => s + v * v, 0) - 1) < 1e-4);
  await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }), (e) => e.status === 400 && e.param === 'temperature');
  await assert.rejects(client.chat.completions.create({ ...ask, model: 'other' }), (e) => e.status === 404);
  return text;
}

async function anthropic(text) {
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ask = { model, messages, temperature: 0, max_tokens: 16 };
  const whole = await client.messages.create(ask);
  assert.equal(whole.content[0].text, text);
  let streamed = '';
  const stream = client.messages.stream(ask).on('text', (piece) => (streamed += piece));
  const last = await stream.finalMessage();
  assert.equal(streamed, text);
  assert.equal(last.usage.output_tokens, whole.usage.output_tokens);
  const tools = [{ name: 'get_weather', description: 'Weather of a city', input_schema: parameters }];
  const called = await client.messages.stream({ ...ask, tools, tool_choice: { type: 'any' }, max_tokens: 100 }).finalMessage();
  assert.equal(called.stop_reason, 'tool_use');
  assert.equal(typeof called.content.find((b) => b.type === 'tool_use').input.city, 'string');
  assert.equal((await client.messages.countTokens({ model, messages })).input_tokens, whole.usage.input_tokens);
  await assert.rejects(client.messages.create({ ...ask, max_tokens: 0 }), (e) => e.status === 400);
}

async function ollama(text) {
  const client = new Ollama({ host: url });
  const options = { temperature: 0, num_predict: 16 };
  assert.equal((await client.chat({ model, messages, options })).message.content, text);
  let streamed = '';
  for await (const part of await client.chat({ model, messages, options, stream: true })) streamed += part.message.content;
  assert.equal(streamed, text);
  assert.equal((await client.generate({ model, prompt: messages[0].content, options })).response, text);
  assert.equal((await client.list()).models[0].name, model);
  assert.equal((await client.embed({ model, input: ['one', 'two'] })).embeddings.length, 2);
}

const text = await openai();
await anthropic(text);
await ollama(text);
console.log('ok');
