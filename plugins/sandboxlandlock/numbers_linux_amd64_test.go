package sandboxlandlock

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"dsh/kernel/process"
)

// TestOtherNumbers: the other two sets of system call numbers that amd64 may
// have make no sockets either. Where the kernel has neither of them this proves
// nothing, and nothing needs to be proved.
func TestOtherNumbers(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	for _, tc := range []struct {
		name string
		code []byte
	}{
		{"32 bits", []byte{
			0xb8, 0x67, 0x01, 0, 0, // mov eax, 359 (socket)
			0xbb, 2, 0, 0, 0, // mov ebx, AF_INET
			0xb9, 1, 0, 0, 0, // mov ecx, SOCK_STREAM
			0x31, 0xd2, // xor edx, edx
			0xcd, 0x80, // int 0x80
		}},
		{"x32", []byte{
			0xb8, 0x29, 0, 0, 0x40, // mov eax, x32 + 41 (socket)
			0xbf, 2, 0, 0, 0, // mov edi, AF_INET
			0xbe, 1, 0, 0, 0, // mov esi, SOCK_STREAM
			0x31, 0xd2, // xor edx, edx
			0x0f, 0x05, // syscall
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// The exit status is 0 when the result was a descriptor, else the error's
			// number.
			code := append(tc.code,
				0x31, 0xff, // xor edi, edi
				0x85, 0xc0, // test eax, eax
				0x79, 4, // jns over the next two
				0xf7, 0xd8, // neg eax
				0x89, 0xc7, // mov edi, eax
				0xb8, 60, 0, 0, 0, // mov eax, 60 (exit)
				0x0f, 0x05, // syscall
			)
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, elf(t, code), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(path)
			if confined(t, s, cmd, &process.Confinement{Mode: process.ReadOnly, NoNetwork: true, Strict: true}); cmd.ProcessState.ExitCode() == 0 {
				t.Error("it made a socket")
			}
		})
	}
}

// elf makes a program of code.
func elf(t *testing.T, code []byte) []byte {
	t.Helper()
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var b bytes.Buffer
	for _, v := range []any{
		[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		uint16(2), uint16(62), uint32(1), uint64(base + headers), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
		code,
	} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
