// Real clients against a running server: node clients.mjs URL MODEL CLASSIFIER SENSIBLE. No client is patched.
// SENSIBLE is 1 for a trained model and 0 for random weights; with 0, only checks that hold for any model run.
import assert from 'node:assert/strict';
import { File } from 'node:buffer';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { generateObject, generateText, jsonSchema, streamText, tool } from 'ai';
import { Ollama } from 'ollama';
import OpenAI, { toFile } from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod/v3';

globalThis.File ??= File;  // not a global in Node.js 18 (Debian 12)
const [url, model, classifier, sensibleFlag] = process.argv.slice(2);
const sensible = sensibleFlag === '1';
const question = sensible ? 'What is the capital of France?' : 'Hello';
const messages = [{ role: 'user', content: question }];
// A model with random weights rarely closes a string and generates many blanks: forbid blanks.
const noBlanks = sensible ? {} : { logit_bias: { 9: -100, 10: -100, 13: -100, 32: -100 } };
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 20 } },
  required: ['city'],
  additionalProperties: false,
};
const City = z.object({ city: z.enum(['Paris', 'London']) });
const callTokens = 200;  // enough for a tool call

function check(name, ok, found) {
  assert.ok(ok, `${name}: ${JSON.stringify(found)}`);
}

async function openai() {
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  check('models', ids.includes(model) && ids.includes(classifier), ids);
  const ask = { model, messages, temperature: 0, max_tokens: 16 };
  const response = await client.chat.completions.create(ask);
  const text = response.choices[0].message.content;
  assert.ok(text.length > 0);
  if (sensible) assert.match(text, /Paris/);

  let streamed = '', usage;
  const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(streamed, text);
  assert.deepEqual(usage, response.usage);

  const scored = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
  const bytes = scored.choices[0].logprobs.content.flatMap((t) => t.bytes);
  assert.equal(new TextDecoder().decode(new Uint8Array(bytes)).replace(/<\|.*/, ''), text);

  const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters } }];
  const weather = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const callRequest = { ...ask, ...noBlanks, messages: weather, tools, tool_choice: 'required', max_tokens: callTokens };
  const called = await client.chat.completions.create(callRequest);
  const call = called.choices[0].message.tool_calls[0];
  assert.equal(called.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.function.name, 'get_weather');
  assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
  const reply = await client.chat.completions.create({
    ...ask, tools,
    messages: [...weather, called.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }],
  });
  assert.ok(reply.choices[0].message);
  const runner = client.chat.completions.stream(callRequest);
  assert.equal((await runner.finalChatCompletion()).choices[0].message.tool_calls[0].function.name, 'get_weather');
  if (sensible) {
    let callArguments;
    const turns = client.chat.completions.runTools({
      ...ask, messages: weather, max_tokens: 60,
      tools: [{ type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters,
        parse: JSON.parse, function: (values) => ((callArguments = values), 'sunny, 20 degrees') } }],
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
    });
    await turns.done();
    check('runTools', typeof callArguments?.city === 'string', callArguments);
  }

  const parsed = await client.chat.completions.parse({
    ...ask, ...noBlanks, max_tokens: callTokens, response_format: zodResponseFormat(City, 'place'),
  });
  check('zod', ['Paris', 'London'].includes(parsed.choices[0].message.parsed.city), parsed.choices[0].message);

  const completion = await client.completions.create({ model, prompt: 'Hello', max_tokens: 4, temperature: 0, echo: true, logprobs: 1 });
  assert.ok(completion.choices[0].text.startsWith('Hello'));
  const beams = await client.completions.create({ model, prompt: 'Hello', max_tokens: 4, n: 2, best_of: 3, use_beam_search: true });
  assert.equal(beams.choices.length, 2);
  const vectors = await client.embeddings.create({ model, input: ['one', 'two'] });
  assert.equal(vectors.data.length, 2);
  assert.ok(Math.abs(vectors.data[0].embedding.reduce((s, v) => s + v * v, 0) - 1) < 1e-4);
  await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }), (e) => e.status === 400 && e.param === 'temperature');
  await assert.rejects(client.chat.completions.create({ ...ask, model: 'other' }), (e) => e.status === 404);

  const moderation = await client.moderations.create({ model: classifier, input: ['You are a stupid idiot, shut up', 'Thank you!'] });
  check('moderations', moderation.results.length === 2 && typeof moderation.results[0].flagged === 'boolean', moderation);
  if (sensible) assert.deepEqual(moderation.results.map((r) => r.flagged), [true, false]);
  return text;
}

async function responses(text) {
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
  const ask = { model, input: question, temperature: 0, max_output_tokens: 16 };
  const response = await client.responses.create(ask);
  assert.equal(response.output_text, text);
  let streamed = '', last;
  const kinds = new Set();
  for await (const event of await client.responses.create({ ...ask, stream: true })) {
    kinds.add(event.type);
    if (event.type === 'response.output_text.delta') streamed += event.delta;
    if (event.type === 'response.completed' || event.type === 'response.incomplete') last = event.response;
  }
  assert.equal(streamed, text);
  assert.deepEqual(last.usage, response.usage);
  check('events', kinds.has('response.created') && kinds.has('response.output_item.done'), [...kinds]);
  assert.equal((await client.responses.stream(ask).finalResponse()).output[0].content[0].text, text);
  const next = await client.responses.create({ ...ask, input: 'And of England?', previous_response_id: response.id });
  assert.ok(next.usage.input_tokens > response.usage.input_tokens);
  assert.equal((await client.responses.retrieve(response.id)).id, response.id);
  await client.responses.delete(response.id);
  await assert.rejects(client.responses.retrieve(response.id), (e) => e.status === 404);

  const tools = [{ type: 'function', name: 'get_weather', description: 'Weather of a city', parameters, strict: true }];
  const callRequest = { ...ask, ...noBlanks, input: 'What is the weather in Paris?', tools, tool_choice: 'required', max_output_tokens: callTokens };
  const called = await client.responses.create(callRequest);
  const call = called.output.find((item) => item.type === 'function_call');
  assert.equal(typeof JSON.parse(call.arguments).city, 'string');
  const streamedCall = await client.responses.stream(callRequest).finalResponse();
  assert.equal(streamedCall.output[0].name, 'get_weather');
  const reply = await client.responses.create({
    ...ask, tools, previous_response_id: called.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }],
  });
  assert.ok(reply.output.length > 0);
  const parsed = await client.responses.parse({ ...ask, ...noBlanks, max_output_tokens: callTokens, text: { format: zodTextFormat(City, 'place') } });
  check('zod', ['Paris', 'London'].includes(parsed.output_parsed.city), parsed.output);
  await assert.rejects(client.responses.create({ ...ask, tools: [{ type: 'web_search' }] }), (e) => e.status === 400 && e.param === 'tools[0].type');
}

async function batches(text) {
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
  const body = { model, messages, temperature: 0, max_tokens: 16 };
  const lines = ['one', 'two'].map((custom_id) => JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body }));
  const file = await client.files.create({ purpose: 'batch', file: await toFile(Buffer.from(lines.join('\n')), 'requests.jsonl') });
  assert.equal(file.filename, 'requests.jsonl');
  assert.equal((await client.files.retrieve(file.id)).bytes, file.bytes);
  let batch = await client.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' });
  for (let i = 0; i < 600 && !['completed', 'failed'].includes(batch.status); ++i) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await client.batches.retrieve(batch.id);
  }
  assert.deepEqual(batch.request_counts, { total: 2, completed: 2, failed: 0 });
  const answers = (await (await client.files.content(batch.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(answers.map((a) => a.response.body.choices[0].message.content), [text, text]);
  const listed = [];
  for await (const one of client.files.list({ limit: 1 })) listed.push(one.id);
  check('files', listed.includes(file.id) && listed.includes(batch.output_file_id), listed);
  for await (const one of client.batches.list()) assert.equal(one.id, batch.id);
  assert.ok((await client.files.delete(file.id)).deleted);
}

async function anthropic(text) {
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const ask = { model, messages, temperature: 0, max_tokens: 16 };
  const response = await client.messages.create(ask);
  assert.equal(response.content[0].text, text);
  let streamed = '';
  const stream = client.messages.stream(ask).on('text', (piece) => (streamed += piece));
  const last = await stream.finalMessage();
  assert.equal(streamed, text);
  assert.equal(last.usage.output_tokens, response.usage.output_tokens);
  const inputTokens = response.usage.input_tokens + response.usage.cache_read_input_tokens;
  assert.equal((await client.messages.countTokens({ model, messages })).input_tokens, inputTokens);
  assert.equal(last.usage.input_tokens + last.usage.cache_read_input_tokens, inputTokens);
  if (sensible) {  // this dialect has no logit_bias, and a model with random weights generates blanks without end
    const tools = [{ name: 'get_weather', description: 'Weather of a city', input_schema: parameters }];
    const called = await client.messages.stream({ ...ask, tools, tool_choice: { type: 'any' }, max_tokens: callTokens }).finalMessage();
    assert.equal(called.stop_reason, 'tool_use');
    const toolUse = called.content.find((b) => b.type === 'tool_use');
    assert.equal(typeof toolUse.input.city, 'string');
    const reply = await client.messages.create({
      ...ask, tools,
      messages: [...messages, { role: 'assistant', content: called.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: toolUse.id, content: 'sunny' }] }],
    });
    assert.equal(reply.type, 'message');
  }
  await assert.rejects(client.messages.create({ ...ask, max_tokens: 0 }), (e) => e.status === 400);
}

async function ollama(text) {
  const client = new Ollama({ host: url });
  const options = { temperature: 0, num_predict: 16 };
  assert.equal((await client.chat({ model, messages, options })).message.content, text);
  let streamed = '';
  for await (const part of await client.chat({ model, messages, options, stream: true })) streamed += part.message.content;
  assert.equal(streamed, text);
  assert.equal((await client.generate({ model, prompt: question, options })).response, text);
  assert.equal((await client.embed({ model, input: ['one', 'two'] })).embeddings.length, 2);
  const listed = (await client.list()).models.find((m) => m.name === model);
  check('list', listed.size > 0 && /^[0-9a-f]{64}$/.test(listed.digest) && new Date(listed.modified_at).getFullYear() > 2000, listed);
  const details = await client.show({ model });
  check('show', details.details.family && details.capabilities.includes('completion') && details.model_info, details);
  check('ps', (await client.ps()).models.some((m) => m.name === model), await client.ps());
  assert.match((await client.version()).version, /^\d+\.\d+/);
}

async function ai(text) {
  const provider = createOpenAICompatible({ name: 'makar', baseURL: url + '/v1', supportsStructuredOutputs: true,
    fetch: sensible ? undefined : (to, o) => fetch(to, { ...o, body: JSON.stringify({ ...JSON.parse(o.body), ...noBlanks }) }) });
  const ask = { model: provider(model), prompt: question, temperature: 0, maxOutputTokens: 16, maxRetries: 0 };
  const response = await generateText(ask);
  if (sensible) assert.equal(response.text, text);
  assert.ok(response.usage.outputTokens > 0);
  let streamed = '';
  for await (const piece of streamText(ask).textStream) streamed += piece;
  assert.equal(streamed, response.text);
  const tools = { get_weather: tool({ description: 'Weather of a city', inputSchema: jsonSchema(parameters) }) };
  const called = await generateText({ ...ask, tools, toolChoice: 'required', maxOutputTokens: callTokens });
  assert.equal(called.finishReason, 'tool-calls');
  assert.equal(typeof called.toolCalls[0].input.city, 'string');
  const result = await generateObject({ ...ask, schema: City, maxOutputTokens: callTokens });
  check('generateObject', ['Paris', 'London'].includes(result.object.city), result.object);
}

async function langchain(text) {
  const configuration = { baseURL: url + '/v1' };
  const chat = new ChatOpenAI({ model, apiKey: 'none', temperature: 0, maxTokens: 16, maxRetries: 0, configuration });
  assert.equal((await chat.invoke(question)).content, text);
  let streamed = '';
  for await (const piece of await chat.stream(question)) streamed += piece.content;
  assert.equal(streamed, text);
  const longChat = new ChatOpenAI({ model, apiKey: 'none', temperature: 0, maxTokens: callTokens, maxRetries: 0, configuration, modelKwargs: noBlanks });
  const weather = { type: 'function', function: { name: 'get_weather', description: 'Weather of a city', parameters } };
  const called = await longChat.bindTools([weather], { tool_choice: 'required' }).invoke('What is the weather in Paris?');
  assert.equal(called.tool_calls[0].name, 'get_weather');
  for (const method of ['jsonSchema', 'functionCalling']) {
    const result = await longChat.withStructuredOutput(City, { name: 'place', method }).invoke(question);
    check(`withStructuredOutput ${method}`, ['Paris', 'London'].includes(result.city), result);
  }
  const embeddings = new OpenAIEmbeddings({ model, apiKey: 'none', maxRetries: 0, configuration });
  const [one, same] = [await embeddings.embedQuery('one'), (await embeddings.embedDocuments(['one', 'two']))[0]];
  assert.deepEqual(one, same);
}

const text = await openai();
for (const client of [responses, batches, anthropic, ollama, ai, langchain]) {
  await client(text);
  console.log(client.name, 'ok');
}
