// Programs as users of the TypeScript Agent SDK write them, against dcl: only
// pathToClaudeCodeExecutable is theirs to change (S004).
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk'
import { z } from 'zod'

const roots = []
after(() => roots.forEach((r) => rmSync(r, { recursive: true, force: true })))

function fresh(more = {}) {
  const root = mkdtempSync(join(tmpdir(), 'dcl-sdk-ts-'))
  roots.push(root)
  const cwd = join(root, 'workspace')
  mkdirSync(cwd)
  return {
    cwd, pathToClaudeCodeExecutable: process.env.DCL_BIN, model: 'mock-model', settingSources: [],
    env: {
      PATH: process.env.PATH, HOME: root, DSH_HOME: join(root, 'home'), CLAUDE_CONFIG_DIR: join(root, 'config'),
      DSH_SCRIPT: fileURLToPath(new URL('model.yaml', import.meta.url)),
    },
    ...more,
  }
}

async function collect(q) {
  const messages = []
  for await (const m of q) messages.push(m)
  return messages
}

const ask = (prompt, options) => collect(query({ prompt, options }))
const resultOf = (messages) => {
  const results = messages.filter((m) => m.type === 'result')
  assert.equal(results.length, 1, JSON.stringify(messages.map((m) => m.type)))
  return results[0]
}
const user = (text) => ({ type: 'user', session_id: '', parent_tool_use_id: null, message: { role: 'user', content: text } })

// inbox is a prompt stream that stays open until end().
function inbox() {
  const queue = []
  let wake = () => {}
  let ended = false
  return {
    say: (text) => { queue.push(user(text)); wake() },
    end: () => { ended = true; wake() },
    async * [Symbol.asyncIterator]() {
      for (;;) {
        while (queue.length) yield queue.shift()
        if (ended) return
        await new Promise((resolve) => { wake = resolve })
      }
    },
  }
}

test('string prompt', async () => {
  const messages = await ask('hello', fresh())
  const init = messages.find((m) => m.type === 'system' && m.subtype === 'init')
  for (const name of ['Read', 'Write', 'Edit', 'Glob', 'Grep', 'Bash', 'TodoWrite']) assert.ok(init.tools.includes(name), name)
  const result = resultOf(messages)
  assert.equal(result.subtype, 'success')
  assert.equal(result.result, 'Hello from mock-model.')
})

test('canUseTool allows, rewrites and denies', async () => {
  const options = fresh()
  const asked = []
  await ask('touch a file', {
    ...options,
    canUseTool: async (name, input, { toolUseID }) => {
      asked.push([name, input.command, typeof toolUseID])
      return { behavior: 'allow', updatedInput: { ...input, command: 'touch other.txt' } }
    },
  })
  assert.deepEqual(asked, [['Bash', 'touch made.txt', 'string']])
  assert.deepEqual(readdirSync(options.cwd), ['other.txt'])
  const denied = resultOf(await ask('touch a file', { ...fresh(), canUseTool: async () => ({ behavior: 'deny', message: 'not here' }) }))
  assert.equal(denied.result, 'Tool said: not here')
  assert.equal(denied.permission_denials.length, 1)
})

test('hooks', async () => {
  const heard = []
  const hook = (output) => async (input, id) => { heard.push([input.hook_event_name, input.tool_name, typeof id]); return output }
  const messages = await ask('echo something', fresh({
    hooks: {
      PreToolUse: [{ matcher: 'Bash', hooks: [hook({})] }],
      PostToolUse: [{ hooks: [hook({})] }],
      UserPromptSubmit: [{ hooks: [hook({})] }],
      Stop: [{ hooks: [hook({})] }],
    },
  }))
  assert.equal(resultOf(messages).result, 'Tool said: something')
  assert.deepEqual(heard.map(([event]) => event), ['UserPromptSubmit', 'PreToolUse', 'PostToolUse', 'Stop'])
})

test('createSdkMcpServer', async () => {
  const server = createSdkMcpServer({
    name: 'calc', version: '1.0.0',
    tools: [tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }))],
  })
  const messages = await ask('add numbers', fresh({ mcpServers: { calc: server }, allowedTools: ['mcp__calc__add'] }))
  const init = messages.find((m) => m.type === 'system' && m.subtype === 'init')
  assert.ok(init.tools.includes('mcp__calc__add'))
  assert.equal(resultOf(messages).result, 'Tool said: 5')
  const given = messages.find((m) => m.type === 'user' && Array.isArray(m.message.content)).message.content[0]
  assert.deepEqual(given.content, [{ type: 'text', text: '5' }])
})

test('interrupt, and the session goes on', async () => {
  const box = inbox()
  box.say('count slowly')
  const q = query({ prompt: box, options: fresh({ includePartialMessages: true }) })
  const results = []
  let interrupted = false
  for await (const m of q) {
    if (m.type === 'stream_event' && m.event.type === 'content_block_delta' && !interrupted) {
      interrupted = true
      await q.interrupt()
    }
    if (m.type !== 'result') continue
    results.push(m.subtype)
    if (results.length === 1) box.say('hello')
    else box.end()
  }
  assert.deepEqual(results, ['error_during_execution', 'success'])
})

test('setPermissionMode, setModel and the answers of initialize', async () => {
  const box = inbox()
  const options = fresh({ permissionMode: 'plan' })
  const q = query({ prompt: box, options })
  assert.ok(Array.isArray(await q.supportedCommands()))
  assert.ok((await q.supportedModels()).length > 0)
  assert.ok(await q.accountInfo())
  assert.ok(Array.isArray(await q.mcpServerStatus()))
  const answers = []
  box.say('touch a file')
  for await (const m of q) {
    if (m.type !== 'result') continue
    answers.push(m.result)
    if (answers.length === 1) {
      await q.setPermissionMode('bypassPermissions')
      box.say('touch a file')
    } else if (answers.length === 2) {
      assert.deepEqual(readdirSync(options.cwd), ['made.txt'])
      await q.setModel('mock-other')
      box.say('hello')
    } else box.end()
  }
  assert.equal(answers[0], 'Tool said: Permission denied: Plan mode: write operations are not allowed')
  assert.equal(answers[2], 'Hello from mock-other.')
})

test('abort ends the program', async () => {
  const abortController = new AbortController()
  const q = query({ prompt: 'count slowly', options: fresh({ includePartialMessages: true, abortController }) })
  await assert.rejects(async () => {
    for await (const m of q) if (m.type === 'stream_event') abortController.abort()
  }, /abort/i)
})
