// sdkproto/js/dsh.mjs, which newer TypeScript clients start with Node (spec
// jsonrpc 12.2). No version of the vendor's client that starts its runtime so
// is published; the older one, told the same command line, stands in for it.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { DeepSeekHarness } from '@deepseek-ai/dsh-sdk-client'

import { binary, fresh, shim } from './harness.mjs'
import { suite } from './suite.mjs'

suite('shim', (setup, extra) => new DeepSeekHarness({
  launch: {
    command: process.execPath, args: [shim, '--profile', 'sdk', '--patch', patch()],
    cwd: setup.workspace, env: { ...setup.env, DSH_BINARY: binary },
  },
  cwd: setup.workspace, ...setup.route, ...extra,
}))

function folder() {
  return mkdtempSync(join(tmpdir(), 'dsh-shim-'))
}

function patch() {
  const path = join(folder(), 'patch.yaml')
  writeFileSync(path, 'plugins: {todo: {enabled: false}}\n')
  return path
}

// script makes an executable that a shell runs.
function script(body) {
  const path = join(folder(), 'dsh')
  writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
  return path
}

// counter makes an executable that waits for a signal, and a little longer for
// more; its exit code is 40 and the number that came.
function counter(signal) {
  return script(`n=0; i=0; trap 'n=$((n+1))' ${signal}; echo up
    while [ $n = 0 ] && [ $i -lt 200 ]; do i=$((i+1)); sleep 0.05; done
    sleep 0.3; exit $((40+n))`)
}

// start runs the shim. lines gives what the binary writes, said waits for its
// next line, ended for the end of the shim: {code, signal, stderr}, of which
// stderr gives what there is so far.
function start(path, { args = [], env = {}, at = shim } = {}) {
  const child = spawn(process.execPath, [at, ...args], { env: { ...process.env, DSH_BINARY: path, ...env } })
  child.stdin.on('error', () => {}) // a test may write to a binary that is gone
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stderr }))
  return { child, ended, said: async () => (await lines.next()).value, stderr: () => stderr }
}

// serve starts the real binary behind the shim, with one session that has
// answered, and gives the pid of the binary.
async function serve(setup) {
  const run = start(binary, { args: ['--profile', 'sdk'], env: setup.env })
  const until = async (wanted) => {
    for (;;) {
      const line = await run.said()
      assert.ok(line !== undefined, 'the output ended')
      const frame = JSON.parse(line)
      if (wanted(frame)) return frame
    }
  }
  const send = (id, method, params) => run.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
  send('1', 'initialize', { cwd: setup.workspace, ...setup.route })
  await until((frame) => frame.id === '1')
  const pid = Number(execFileSync('pgrep', ['-P', run.child.pid], { encoding: 'utf8' }))
  assert.ok(running(pid))
  send('2', 'session/prompt', { sessionId: 's', contentBlocks: [{ type: 'text', text: 'take your time' }] })
  await until((frame) => frame.params?.event?.type === 'assistant/chunk')
  return { ...run, pid }
}

// running is false for a process that has ended, whether or not somebody has
// collected its exit code.
function running(pid) {
  const state = spawnSync('ps', ['-o', 'stat=', '-p', pid], { encoding: 'utf8' }).stdout.trim()
  return state !== '' && !state.startsWith('Z')
}

async function gone(pid) {
  for (const end = Date.now() + 10_000; running(pid);) {
    assert.ok(Date.now() < end, `process ${pid} is still there`)
    await sleep(20)
  }
}

for (const code of [0, 1, 2, 130, 255]) {
  test(`shim: exit code ${code} of the binary is its own`, async () => {
    assert.deepEqual(await start(script(`exit ${code}`)).ended, { code, signal: null, stderr: '' })
  })
}

for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP']) {
  test(`shim: it dies of the ${signal} that kills the binary`, async () => {
    assert.deepEqual(await start(script(`kill -${signal.slice(3)} $$`)).ended, { code: null, signal, stderr: '' })
  })
}

test('shim: a signal that Node ignores becomes a code', async () => {
  assert.deepEqual(await start(script('kill -PIPE $$')).ended, { code: 141, signal: null, stderr: '' })
})

for (const [signal, name] of [['SIGTERM', 'TERM'], ['SIGINT', 'INT'], ['SIGHUP', 'HUP']]) {
  test(`shim: ${signal} is passed on, once, and the answer is waited for`, async () => {
    const run = start(counter(name))
    assert.equal(await run.said(), 'up')
    run.child.kill(signal)
    assert.deepEqual(await run.ended, { code: 41, signal: null, stderr: '' })
  })
}

test('shim: a signal to the process group reaches the binary once', async () => {
  const child = spawn(process.execPath, [shim], { env: { ...process.env, DSH_BINARY: counter('INT') }, detached: true })
  const ended = once(child, 'exit')
  await once(child.stdout, 'data')
  process.kill(-child.pid, 'SIGINT')
  assert.deepEqual(await ended, [41, null])
})

test('shim: arguments and the three streams are the binary\'s', async () => {
  const run = start(script('for a in "$@"; do echo "<$a>"; done; echo oops >&2; cat'), { args: ['--profile', 'a b', '', '--patch=$x'] })
  run.child.stdin.end('from the input\n')
  for (const line of ['<--profile>', '<a b>', '<>', '<--patch=$x>', 'from the input']) assert.equal(await run.said(), line)
  assert.deepEqual(await run.ended, { code: 0, signal: null, stderr: 'oops\n' })
})

test('shim: the binary lies beside it when DSH_BINARY is not set or blank', async () => {
  const path = script('exit 7')
  const at = join(path, '..', 'shim.mjs')
  copyFileSync(shim, at)
  assert.equal((await start('', { at }).ended).code, 7)
  assert.equal((await start(' ', { at }).ended).code, 7)
  const link = join(folder(), 'link.mjs')
  symlinkSync(at, link)
  assert.equal((await start('', { at: link }).ended).code, 7)
})

test('shim: a missing binary is named, and so is the way out', async () => {
  const path = join(folder(), 'none')
  const end = await start(path).ended
  assert.equal(end.code, 127)
  assert.ok(end.stderr.startsWith(`dsh: cannot start the dsh binary ${path}: no such file; `), end.stderr)
  assert.match(end.stderr, /set DSH_BINARY to its path\n$/)
})

test('shim: a file that cannot be run is named', async () => {
  const path = join(folder(), 'text')
  writeFileSync(path, 'no program')
  const end = await start(path).ended
  assert.equal(end.code, 126)
  assert.ok(end.stderr.startsWith(`dsh: cannot start the dsh binary ${path}: `), end.stderr)
})

for (const [signal, code] of [['SIGTERM', 0], ['SIGINT', 130]]) {
  test(`shim: ${signal} during a turn ends the real binary with its log complete`, async () => {
    const setup = fresh()
    const run = await serve(setup)
    run.child.kill(signal)
    const end = await run.ended
    assert.deepEqual([end.code, end.signal], [code, null], end.stderr)
    assert.equal(setup.logs()['s.jsonl'].findLast((r) => r.type.startsWith('turn/')).type, 'turn/end')
    await gone(run.pid)
  })
}

test('shim: SIGHUP makes the real binary read its profile again, and go on', async () => {
  const setup = fresh()
  const run = await serve(setup)
  run.child.kill('SIGHUP')
  while (!/profile.*nothing in it has changed/.test(run.stderr())) await sleep(20)
  run.child.kill('SIGTERM')
  const end = await run.ended
  assert.deepEqual([end.code, end.signal], [0, null], end.stderr)
})

test('shim: the end of input during a turn ends the real binary', async () => {
  const setup = fresh()
  const run = await serve(setup)
  run.child.stdin.end()
  const end = await run.ended
  assert.deepEqual([end.code, end.signal], [0, null], end.stderr)
  assert.equal(setup.logs()['s.jsonl'].findLast((r) => r.type.startsWith('turn/')).type, 'turn/end')
})

test('shim: killed, it leaves no binary behind', async () => {
  const setup = fresh()
  const run = await serve(setup)
  run.child.kill('SIGKILL')
  const end = await run.ended
  assert.deepEqual([end.code, end.signal], [null, 'SIGKILL'])
  await gone(run.pid)
  assert.equal(setup.logs()['s.jsonl'].findLast((r) => r.type.startsWith('turn/')).type, 'turn/end')
})

test('shim: it knows no dependency', () => {
  const imports = [...readFileSync(shim, 'utf8').matchAll(/^import .* from '(.*)'$/gm)].map((m) => m[1])
  assert.ok(imports.length > 0)
  assert.ok(imports.every((name) => name.startsWith('node:')), imports.join(' '))
})
