// An independent TypeScript client of the same wire, unchanged.
import { DeepSeekHarness } from '@openma/deepseek-harness-sdk'

import { binary } from './harness.mjs'
import { suite } from './suite.mjs'

suite('openma', (setup, extra) => new DeepSeekHarness({
  launchArgsOverride: [binary, '--profile', 'sdk'], env: setup.env, cwd: setup.workspace, ...setup.route, ...extra,
}))

// The older launch form: no arguments, DSH_CWD says that a client is there
// (spec jsonrpc 12.3).
suite('openma, given the binary only', (setup, extra) => new DeepSeekHarness({
  runtimeBin: binary, env: setup.env, cwd: setup.workspace, ...setup.route, ...extra,
}))
