// The same conversation for every published TypeScript client: a text turn, a
// tool turn, two sessions at once, an error turn, a close that leaves whole
// logs (spec jsonrpc 14 line 20).
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { fresh } from './harness.mjs'

// suite runs against open(setup, extra) => a client with run(input, options) and
// close().
export function suite(name, open) {
  const within = (title, body) => test(`${name}: ${title}`, async () => {
    const setup = fresh()
    const harness = await open(setup, {})
    try {
      await body(harness, setup)
    } finally {
      await harness.close()
    }
  })

  within('a text turn', async (harness) => {
    const result = await harness.run('hi there')
    assert.equal(result.finalResponse, 'hello from the script')
    assert.equal(result.events.at(-1).type, 'turn/end')
    assert.deepEqual(result.events.at(-1).data.reason, { kind: 'completed' })
  })

  within('a tool turn on a real folder', async (harness) => {
    const kinds = []
    const result = await harness.run('please read the note', {
      sessionId: 'tools', onNotification: (n) => kinds.push(n.params?.event?.type ?? n.params?.status),
    })
    assert.match(result.finalResponse, /^The note says: [^]*remember the milk/)
    const wanted = ['agent/inbox/spliced', 'running', 'turn/start', 'step/start', 'user/message', 'request/header',
      'assistant/message', 'tool/call', 'tool/result', 'step/end', 'step/start', 'assistant/message', 'step/end', 'turn/end', 'idle']
    let from = 0
    for (const kind of wanted) {
      const at = kinds.indexOf(kind, from)
      assert.ok(at >= 0, `${kind} after ${kinds.slice(0, from).join(' ')} in ${kinds.join(' ')}`)
      from = at + 1
    }
  })

  within('two runs on one session continue it', async (harness) => {
    const session = harness.session('kept')
    assert.equal((await session.run('which session, first')).finalResponse, 'you said which session, first')
    const second = await session.run('which session, second')
    assert.equal(second.finalResponse, 'you said which session, second')
    assert.equal(second.events.find((e) => e.type === 'turn/start').data.turn, 2)
  })

  within('two sessions at once do not mix', async (harness) => {
    const [a, b] = await Promise.all(['a', 'b'].map((id) => harness.run(`which session, ${id}`, { sessionId: id })))
    assert.equal(a.finalResponse, 'you said which session, a')
    assert.equal(b.finalResponse, 'you said which session, b')
    assert.deepEqual(new Set([...a.notifications, ...b.notifications].map((n) => n.params.sessionId)), new Set(['a', 'b']))
    assert.ok(a.notifications.every((n) => n.params.sessionId === 'a'))
  })

  within('a failed turn is told and the session goes on', async (harness) => {
    const session = harness.session('failing')
    const failed = await session.run('break')
    const end = failed.events.at(-1)
    assert.equal(end.type, 'turn/end')
    assert.equal(end.data.reason.kind, 'error')
    assert.match(end.data.reason.error.message, /the provider said no/)
    assert.equal((await session.run('hi')).finalResponse, 'hello from the script')
  })

  test(`${name}: an unknown provider fails the handshake`, async () => {
    const harness = await open(fresh(), { provider: 'nobody' })
    await assert.rejects(harness.run('hi'), /no adapter registered for provider "nobody"/)
    await harness.close()
  })

  test(`${name}: the stored log is what was streamed`, async () => {
    const setup = fresh()
    const harness = await open(setup, {})
    const result = await harness.run('please read the note', { sessionId: 'logged' })
    await harness.close()
    const [header, ...rows] = setup.logs()['logged.jsonl']
    assert.equal(header.type, 'session')
    assert.equal(header.id, 'logged')
    assert.equal(header.cwd, setup.workspace)
    const stored = rows.filter((r) => r.seq !== undefined && r.type !== 'assistant/chunk')
    const streamed = result.events.filter((e) => e.type !== 'assistant/chunk')
    assert.deepEqual(stored.slice(0, streamed.length), streamed)
  })
}
