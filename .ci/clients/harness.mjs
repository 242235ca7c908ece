// What the client tests share: a workspace, a home, a scripted model and the
// command line of the binary under test.
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const binary = given('DSH_BIN', 'the dsh binary under test')
export const dcl = given('DCL_BIN', 'the dcl binary under test')
export const shim = given('DSH_SHIM', 'sdkproto/js/dsh.mjs')

function given(name, what) {
  if (!process.env[name]) throw new Error(`set ${name} to the absolute path of ${what}`)
  return process.env[name]
}

// fresh makes the folders of one test and the environment of its runtime.
export function fresh() {
  const root = mkdtempSync(join(tmpdir(), 'dsh-client-'))
  const workspace = mkdtempSync(join(root, 'workspace-'))
  writeFileSync(join(workspace, 'note.txt'), 'remember the milk\n')
  const home = join(root, 'home')
  return {
    workspace,
    env: { ...process.env, DSH_HOME: home, DSH_SCRIPT: fileURLToPath(new URL('model.yaml', import.meta.url)) },
    route: { provider: 'scripted', model: 'scripted' },
    // logs gives the events of every stored session, by file.
    logs: () => Object.fromEntries(readdirSync(join(home, 'sessions.d')).filter((f) => f.endsWith('.jsonl'))
      .map((f) => [f, readFileSync(join(home, 'sessions.d', f), 'utf8').trimEnd().split('\n').map((l) => JSON.parse(l))])),
  }
}
