// A conversation with `dsh --profile sdk`, line by line, and what a test wants to
// know of a turn.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export class Wire {
  #child
  #lines = []
  #waiting = new Set()
  #ids = 0
  #stderr = ''

  constructor(binary, args, options) {
    this.#child = spawn(binary, args, { ...options, stdio: 'pipe' })
    this.#child.stderr.on('data', (data) => { this.#stderr += data })
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.#lines.push(JSON.parse(line))
      for (const look of this.#waiting) look()
    })
    this.ended = new Promise((resolve) => this.#child.on('close', resolve))
  }

  // until waits for the first line from a position on that find likes.
  async until(what, find, from = 0) {
    let look, timer
    try {
      return await new Promise((resolve, reject) => {
        look = () => {
          const line = this.#lines.slice(from).find(find)
          if (line) resolve(line)
        }
        this.#waiting.add(look)
        timer = setTimeout(() => reject(new Error(`waited too long for ${what}; standard error:\n${this.#stderr}`)), 30_000)
        this.ended.then(() => reject(new Error(`the process ended before ${what}; standard error:\n${this.#stderr}`)))
        look()
      })
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(look)
    }
  }

  async request(method, params = {}) {
    const id = `r${++this.#ids}`
    this.#child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n')
    const answer = await this.until(`the answer to ${method}`, (line) => line.id === id)
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`)
    return answer.result
  }

  // call lets the model call a tool in a turn and gives its result; started is
  // told when the call is on its way.
  async call(tool, args, started = () => {}) {
    const from = this.#lines.length
    const of = (line, type) => line.params?.event?.type === type
    await this.request('session/prompt', {
      sessionId: 's', contentBlocks: [{ type: 'text', text: `call ${tool} ${JSON.stringify(args)}` }],
    })
    await this.until('tool/call', (line) => of(line, 'tool/call'), from)
    started()
    const result = await this.until('tool/result', (line) => of(line, 'tool/result'), from)
    await this.until('idle', (line) => line.method === 'session.status' && line.params.status === 'idle', from)
    const { error, message: { content: [{ isError, content }] } } = result.params.event.data
    return { isError, code: error?.code, content, text: content.map((block) => block.text ?? '').join('\n') }
  }

  // server gives the state of the one MCP server, once it is what is wanted.
  async server(state) {
    for (let tries = 0; ; tries++) {
      const [server] = (await this.request('runtime/status')).mcp
      if (server.state === state) return server
      if (tries === 300) throw new Error(`the server does not become ${state}: ${JSON.stringify(server)}`)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }

  async close() {
    this.#child.stdin.end()
    return this.ended
  }
}
