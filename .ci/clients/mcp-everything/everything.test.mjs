// The reference MCP server, unchanged, over each transport, against the real
// binary: tools with text, images, resources, progress; prompts; and its end in
// the middle of a call.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { binary, fresh } from '../harness.mjs'
import { Wire } from './wire.mjs'

const everything = fileURLToPath(new URL('node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url))

// stdio is started by the harness, which writes down its process id.
function stdio(workspace) {
  const file = join(workspace, 'pid')
  return {
    row: { command: 'sh', args: ['-c', `echo $$ > "$0"; exec "$@"`, file, process.execPath, everything, 'stdio'] },
    kill: () => process.kill(Number(readFileSync(file, 'utf8')), 'SIGKILL'),
    // It comes back by itself.
    restart: async () => {},
    end: async () => {},
  }
}

// web starts the server on a port of its own.
const web = (mode, type, path) => async () => {
  const port = await freePort()
  const start = async () => {
    const child = spawn(process.execPath, [everything, mode], { env: { ...process.env, PORT: port }, stdio: ['ignore', 'ignore', 'pipe'] })
    await new Promise((resolve, reject) => {
      child.stderr.on('data', (data) => { if (/ on port /.test(data)) resolve() })
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}`)))
    })
    return child
  }
  let child = await start()
  const kill = () => child.kill('SIGKILL')
  return { row: { type, url: `http://127.0.0.1:${port}${path}` }, kill, restart: async () => { child = await start() }, end: async () => kill() }
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve, reject) => server.on('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return String(port)
}

for (const [name, begin] of Object.entries({
  stdio, 'streamable HTTP': web('streamableHttp', 'http', '/mcp'), SSE: web('sse', 'sse', '/sse'),
})) {
  test(`server-everything over ${name}`, async (t) => {
    const { env: { DSH_SCRIPT, ...env }, workspace, route, logs } = fresh()
    const server = await begin(workspace)
    const patch = join(workspace, '..', 'patch.json')
    // within runs body with a process whose calls have a limit.
    const within = (title, timeout, body) => t.test(title, async (t) => {
      writeFileSync(patch, JSON.stringify({ plugins: { mcp: { config: {
        reconnect: { attempts: 20, first: '50ms', most: '200ms' },
        servers: { everything: { ...server.row, required: true, timeout } },
      } } } }))
      const dsh = new Wire(binary, ['--profile', 'sdk', '--patch', patch], { cwd: workspace, env })
      try {
        await dsh.request('initialize', { cwd: workspace, ...route })
        await body(t, dsh)
      } finally {
        assert.equal(await dsh.close(), 0)
      }
    })
    try {
      await within('while it lives', '2s', (t, dsh) => alive(t, dsh, { env, logs }))
      await within('when it dies', '60s', (t, dsh) => dying(dsh, server))
      await t.test('a prompt is a slash command', async () => {
        const { stdout } = await promisify(execFile)(
          binary, ['-p', `/${tool('args-prompt')} Paris Texas`, '--patch', patch, '--provider', route.provider], { cwd: workspace, env })
        assert.match(stdout, /What's weather in Paris, Texas\?/)
      })
    } finally {
      await server.end()
    }
  })
}

function tool(name) { return `mcp__everything__${name}` }

async function alive(t, dsh, { env, logs }) {
  const text = async (name, args) => {
    const result = await dsh.call(name, args)
    assert.equal(result.isError, false, result.text)
    return result.text
  }

  await t.test('it is connected, and its tools are known', async () => {
    const { tools, error } = await dsh.server('connected')
    assert.equal(error, undefined)
    for (const name of ['echo', 'get-sum', 'get-tiny-image', 'trigger-long-running-operation']) assert.ok(tools.includes(tool(name)), `${name} in ${tools}`)
  })

  await t.test('text', async () => {
    assert.equal(await text(tool('echo'), { message: 'ä 🚀' }), 'Echo: ä 🚀')
    assert.match(await text(tool('get-sum'), { a: 40, b: 2 }), /\b42\b/)
    const wrong = await dsh.call(tool('get-sum'), { a: 'many' })
    assert.equal(wrong.isError, true)
  })

  await t.test('an image is a reference, and its bytes are in a file', async () => {
    const { content } = await dsh.call(tool('get-tiny-image'), {})
    assert.deepEqual(content.map((block) => block.type), ['text', 'image', 'text'], JSON.stringify(content))
    const { attachment } = content[1]
    assert.equal(attachment.mediaType, 'image/png')
    const [, digest] = /^sha256:([0-9a-f]{64})$/.exec(attachment.attachmentId)
    assert.ok(existsSync(join(env.DSH_HOME, 'attachments', 'objects', digest)))
    assert.ok(!JSON.stringify(logs()).includes('iVBORw0KGgo'), 'base64 in the log')
  })

  await t.test('signs of progress keep a call alive beyond its limit', async () => {
    assert.match(await text(tool('trigger-long-running-operation'), { duration: 4, steps: 20 }), /completed/)
    const silent = await dsh.call(tool('trigger-long-running-operation'), { duration: 6, steps: 1 })
    assert.deepEqual([silent.isError, silent.code], [true, 'MCP_TIMEOUT'])
  })

  await t.test('resources, and links to them', async () => {
    const list = await text('list_mcp_resources', { server: 'everything' })
    assert.match(list, /demo:\/\/resource\/static\//)
    assert.match(list, /"uriTemplate":"demo:\/\/resource\/dynamic\/text\//)
    assert.match(await text('read_mcp_resource', { server: 'everything', uri: 'demo://resource/dynamic/text/7' }), /Resource 7/)
    assert.match(await text(tool('get-resource-links'), { count: 2 }), /demo:\/\/resource\/dynamic\/text\/2/)
  })
}

// dying kills the server in the middle of a call: that is an error that says so,
// and the server is back for the next call.
async function dying(dsh, server) {
  const lost = await dsh.call(tool('trigger-long-running-operation'), { duration: 300, steps: 3000 }, () => setTimeout(server.kill, 500))
  assert.equal(lost.isError, true)
  assert.equal(lost.code, 'MCP_CONNECTION_LOST', lost.text)
  assert.match(lost.text, /"everything"/)
  await server.restart()
  await dsh.server('connected')
  assert.equal((await dsh.call(tool('echo'), { message: 'again' })).text, 'Echo: again')
}
