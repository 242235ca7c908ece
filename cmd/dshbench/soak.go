package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// soak works a process for ten minutes: sessions come, read, use the shell,
// delegate and are closed. What it holds after the first minute is compared with
// what it holds at the end.
func soak(t *target) ([]float64, error) { return soakFor(t, 10*time.Minute) }

func soakFor(t *target, length time.Duration) ([]float64, error) {
	p, err := t.initialized()
	if err != nil {
		return nil, err
	}
	p.timer.Reset(length + limit)
	begin := time.Now()
	n, turns := 0, 0
	work := func(until time.Time) error {
		for ; time.Now().Before(until); n++ {
			session := sessionID(n)
			for _, text := range []string{"bench", "bench read", "bench shell"} {
				if err := p.turn(session, text); err != nil {
					return err
				}
				turns++
			}
			if err := p.request("session/close", fmt.Sprintf(`{"sessionId":%q}`, session)); err != nil {
				return err
			}
			if err := p.until(1, []byte(`"id":`+strconv.Itoa(p.id)+`,`)); err != nil {
				return err
			}
		}
		return nil
	}
	var values []float64
	for _, until := range []time.Time{begin.Add(length / 10), begin.Add(length)} {
		if err := work(until); err != nil {
			return nil, err
		}
		time.Sleep(3 * time.Second)
		memory, err := p.memory("VmRSS")
		if err != nil {
			return nil, err
		}
		open, err := p.descriptors()
		if err != nil {
			return nil, err
		}
		values = append(values, memory, open)
	}
	return append([]float64{float64(turns)}, values...), p.end()
}

// descriptors counts the files that the process has open.
func (p *process) descriptors() (float64, error) {
	list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	if err != nil {
		return 0, fmt.Errorf("count open files: %w", err)
	}
	return float64(len(list)), nil
}
