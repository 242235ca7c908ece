#!/usr/bin/env node
// A dsh executable in JavaScript, for TypeScript clients that start theirs as
// `node DSH_BIN --profile NAME ...` (spec jsonrpc 12.2). It runs the dsh binary
// in its place: with the same arguments and the same three streams, it passes
// on the signals that ask for an end and ends as the binary ended.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

const windows = process.platform === 'win32'
const beside = fileURLToPath(new URL(windows ? 'dsh.exe' : 'dsh', import.meta.url))
const binary = process.env.DSH_BINARY?.trim() || beside

let child
const wishes = windows ? ['SIGINT', 'SIGHUP', 'SIGBREAK'] : ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of wishes) {
  process.on(signal, () => {
    // Windows tells every process of the console by itself, and knows no way
    // to pass a wish on: kill would cut the binary off.
    if (!windows) child.kill(signal)
  })
}

// A terminal sends its signals to the whole process group. In a group of its
// own the binary gets each once, from here; it takes the second for impatience
// and would end at once.
try {
  child = spawn(binary, process.argv.slice(2), { stdio: 'inherit', detached: !windows, windowsHide: true })
} catch (error) {
  fail(error)
}
child.on('error', (error) => {
  if (child.pid === undefined) fail(error)
  // Otherwise a signal could not be delivered: the binary is ending already.
})
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  // Node ignores a few signals; a shell's code for them says the same.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
})

// fail ends with the exit codes of a shell that could not run a command.
function fail(error) {
  const missing = error.code === 'ENOENT'
  const reason = missing ? 'there is no such file' : error.message
  process.stderr.write(`dsh: cannot start the dsh binary ${binary}: ${reason}; put it beside ${fileURLToPath(import.meta.url)} or set DSH_BINARY to its path\n`)
  process.exit(missing ? 127 : 126)
}
