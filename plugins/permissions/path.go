package permissions

import (
	"os"
	"path/filepath"
	"strings"
)

// place is a path in every spelling that a rule may be about (case B18).
type place struct {
	// lexical is absolute and cleaned without a look at the disk; real is where it
	// leads once every link is followed.
	lexical, real string
}

// disk follows links, each once: what it has seen stays as it was. The zero
// value is ready for one decision.
type disk struct {
	// targets are those of links by path, "" for what is none.
	targets map[string]string
	// led holds where whole paths lead.
	led map[string]string
}

func (d *disk) readlink(path string) string {
	target, ok := d.targets[path]
	if ok {
		return target
	}
	target, err := os.Readlink(path)
	if err != nil {
		target = ""
	}
	if d.targets == nil {
		d.targets = map[string]string{}
	}
	d.targets[path] = target
	return target
}

// locate gives the place of a path that is absolute or relative to dir. What
// does not exist yet is placed by the folders that do.
func (d *disk) locate(dir, path string) place {
	if !filepath.IsAbs(path) {
		path = dir + string(filepath.Separator) + path
	}
	lexical := filepath.Clean(path)
	return place{lexical, d.follow(lexical)}
}

// raw is locate for programs, to which ".." is the parent of where a link has
// led.
func (d *disk) raw(dir, path string) []place {
	if !filepath.IsAbs(path) {
		path = dir + string(filepath.Separator) + path
	}
	at := d.locate(dir, path)
	places := []place{at}
	if real := d.follow(path); real != at.real {
		places = append(places, place{at.lexical, real})
	}
	return places
}

// maxLinks bounds the links on one path; a system gives up earlier.
const maxLinks = 255

// follow resolves a path from its root on, one part after the other. Unlike
// filepath.EvalSymlinks it goes on behind what does not exist: a file that is
// created through a link to nowhere is created where the link leads.
func (d *disk) follow(path string) string {
	real, ok := d.led[path]
	if !ok {
		if d.led == nil {
			d.led = map[string]string{}
		}
		real = d.walk(path)
		d.led[path] = real
	}
	return real
}

func (d *disk) walk(path string) string {
	volume := filepath.VolumeName(path)
	done := volume + string(filepath.Separator)
	left := strings.Split(filepath.ToSlash(path[len(volume):]), "/")
	links := 0
	for len(left) > 0 {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, part)
		target := d.readlink(next)
		if target == "" || links == maxLinks {
			done = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			volume = filepath.VolumeName(target)
			done, target = volume+string(filepath.Separator), target[len(volume):]
		}
		left = append(strings.Split(filepath.ToSlash(target), "/"), left...)
	}
	return done
}

// below gives the path from a folder to what is in it: "." for itself; false for
// what lies elsewhere.
func below(folder, path string, fold bool) (rel string, ok bool) {
	if fold {
		folder, path = strings.ToLower(folder), strings.ToLower(path)
	}
	switch {
	case path == folder:
		return ".", true
	case !strings.HasPrefix(path, folder):
		return "", false
	case strings.HasSuffix(folder, string(filepath.Separator)):
		return path[len(folder):], true
	case path[len(folder)] == filepath.Separator:
		return path[len(folder)+1:], true
	}
	return "", false
}

// folder is one that a session may work in, in both spellings.
type folder place

func (d *disk) folder(cwd, path, home string) folder {
	return folder(d.locate(cwd, expandHome(path, home)))
}

func expandHome(path, home string) string {
	if path == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, filepath.FromSlash(rest))
	}
	return path
}

// holds reports whether a place is inside in both spellings.
func (f folder) holds(p place) bool {
	if _, ok := below(f.real, p.real, false); !ok {
		return false
	}
	if _, ok := below(f.lexical, p.lexical, false); ok {
		return true
	}
	_, ok := below(f.real, p.lexical, false)
	return ok
}
