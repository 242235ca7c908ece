// The one-shot path: a client that finds `claude` on PATH, starts it with
// --print and writes the prompt to its standard input (spec stream-json 1.1).
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { query } from '@instantlyeasy/claude-code-sdk-ts'
import { dcl, fresh } from './harness.mjs'

// claude makes a PATH on which dcl is called claude.
function claude(f) {
  const bin = join(f.workspace, '..', 'bin')
  mkdirSync(bin)
  symlinkSync(dcl, join(bin, 'claude'))
  return { ...f.env, PATH: `${bin}:${process.env.PATH}`, CLAUDE_CONFIG_DIR: join(bin, 'config') }
}

async function run(prompt, options = {}) {
  const f = fresh()
  const env = claude(f)
  // The client looks for the program on the PATH of its own process.
  process.env.PATH = env.PATH
  const messages = []
  for await (const m of query(prompt, { cwd: f.workspace, env, model: 'mock-model', ...options })) messages.push(m)
  return messages
}

const texts = (messages) => messages.filter((m) => m.type === 'assistant')
  .flatMap((m) => m.content ?? m.message.content).filter((b) => b.type === 'text').map((b) => b.text).join('')

test('a text turn', async () => {
  const messages = await run('hello')
  assert.match(texts(messages), /hello from the script/)
  const result = messages.find((m) => m.type === 'result')
  assert.equal(result.subtype, 'success')
})

test('a tool turn', async () => {
  const messages = await run('read the note')
  assert.match(texts(messages), /remember the milk/)
})

test('a failed turn exits with an error', async () => {
  await assert.rejects(run('break'), /./)
})
