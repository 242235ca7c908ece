#!/usr/bin/env node
// A dsh executable in JavaScript, for TypeScript clients that start theirs as
// `node DSH_BIN --profile NAME ...` (spec jsonrpc 12.2). It runs the dsh binary
// in its place: with the same arguments and the same three streams, it passes
// on signals, and ends as the binary ended.
import { spawn } from 'node:child_process'
import { writeSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

const windows = process.platform === 'win32'
const beside = fileURLToPath(new URL(windows ? 'dsh.exe' : 'dsh', import.meta.url))
const binary = process.env.DSH_BINARY?.trim() || beside

// The handlers are there before the binary is, so that no signal that comes in
// between leaves it behind.
let child
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    // Windows tells every process of a console by itself and knows no signals:
    // kill would cut the binary off.
    if (!windows) child.kill(signal)
  })
}

try {
  // A terminal sends its signals to a whole process group. In a group of its
  // own the binary gets each once, from here; a second one would tell it to
  // drop everything.
  child = spawn(binary, process.argv.slice(2), { stdio: 'inherit', detached: !windows, windowsHide: true })
} catch (error) {
  fail(error)
}
child.on('error', (error) => {
  // With a pid it is a signal that came too late.
  if (child.pid === undefined) fail(error)
})
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  // Node ignores some signals; then a shell's code for them has to do.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
})

// fail ends with the code of a shell that could not run a command.
function fail(error) {
  const missing = error.code === 'ENOENT'
  writeSync(2, `dsh: cannot start the dsh binary ${binary}: ${missing ? 'no such file' : error.message}; `
    + `put it beside ${fileURLToPath(import.meta.url)} or set DSH_BINARY to its path\n`)
  process.exit(missing ? 127 : 126)
}
