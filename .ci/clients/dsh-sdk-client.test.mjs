// The vendor's TypeScript client, unchanged.
import { DeepSeekHarness } from '@deepseek-ai/dsh-sdk-client'

import { binary } from './harness.mjs'
import { suite } from './suite.mjs'

suite('dsh-sdk-client', (setup, extra) => new DeepSeekHarness({
  launch: { command: binary, args: ['--profile', 'sdk'], cwd: setup.workspace, env: setup.env },
  cwd: setup.workspace, ...setup.route, ...extra,
}))
