// What the client tests share: a workspace, a home, a scripted model and the
// command line of the binary under test.
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const binary = process.env.DSH_BIN
if (!binary) throw new Error('set DSH_BIN to the dsh binary under test')

const script = `
rules:
  - when: {text: read the note, step: 1}
    reply:
      - reasoning: I should look.
      - call: {tool: read, args: {file_path: note.txt}}
  - when: {text: read the note, step: 2}
    reply: 'The note says: {{result}}'
  - when: {text: which session}
    reply:
      - delay: 50ms
      - text: 'you said {{user}}'
  - when: {text: break}
    reply:
      - error: {code: INVALID_REQUEST, status: 400, message: the provider said no}
  - reply: 'hello from the script'
`

// fresh makes the folders of one test and the environment of its runtime.
export function fresh() {
  const root = mkdtempSync(join(tmpdir(), 'dsh-client-'))
  const workspace = mkdtempSync(join(root, 'workspace-'))
  writeFileSync(join(workspace, 'note.txt'), 'remember the milk\n')
  writeFileSync(join(root, 'script.yaml'), script)
  const home = join(root, 'home')
  return {
    workspace,
    env: { ...process.env, DSH_HOME: home, DSH_SCRIPT: join(root, 'script.yaml') },
    route: { provider: 'scripted', model: 'scripted' },
    // logs gives the events of every stored session, by file.
    logs: () => Object.fromEntries(readdirSync(join(home, 'sessions.d')).filter((f) => f.endsWith('.jsonl'))
      .map((f) => [f, readFileSync(join(home, 'sessions.d', f), 'utf8').trimEnd().split('\n').map((l) => JSON.parse(l))])),
  }
}
