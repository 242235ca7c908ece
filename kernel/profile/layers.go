package profile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxExtends bounds how far a chain of extends may go.
const maxExtends = 32

// loader collects the layers of one profile and everything wrong with them.
type loader struct {
	opts    Options
	layers  []*layer
	taken   map[string]bool // files read, so that a shared base counts once
	summary string
	bad     problems
	// misshapen counts those of bad that leave a file usable.
	misshapen int
}

func isPath(name string) bool {
	return strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) ||
		strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func profileName(name string) string {
	if !isPath(name) {
		return name
	}
	base := filepath.Base(name)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// collect reads all files, in the order in which they are layered.
func (l *loader) collect() {
	name := l.opts.Name
	switch {
	case name == "":
		l.bad.add(Position{}, "", "no profile is named; %s", l.available(""))
	case isPath(name):
		l.onDisk(name, true, Position{}, nil, true)
	default:
		l.named(name, Position{}, nil, false, true)
	}
	if l.opts.Home != "" {
		l.alone(filepath.Join(l.opts.Home, "profile.yaml"), false)
		l.refuseYML(filepath.Join(l.opts.Home, "profile.yml"))
	}
	for _, patch := range l.opts.Patches {
		l.alone(patch, true)
	}
}

// named adds the layers of a profile name: the embedded one with its chain,
// then the one in $DSH_HOME. An embedded profile extends embedded ones only;
// at is the place that names it, within the files that led here.
func (l *loader) named(name string, at Position, within []string, embeddedOnly, own bool) {
	switch {
	case name == "desktop":
		l.bad.add(at, "", "the profile name desktop is reserved; choose another name")
		return
	case !nameForm.matches(name):
		l.bad.add(at, "", "%q is not a profile name; use letters, digits, - and _, or a path that ends in .yaml", name)
		return
	}
	found := false
	if l.opts.Embedded != nil {
		file := name + ".yaml"
		data, err := fs.ReadFile(l.opts.Embedded, file)
		if err == nil {
			found = true
			l.take(&layer{file: "embedded:" + file, embedded: true}, data, at, within, own)
		} else if !errors.Is(err, fs.ErrNotExist) {
			found = true
			l.bad.add(Position{File: "embedded:" + file}, "", "read: %v", reason(err))
		}
	}
	if l.opts.Home != "" && !embeddedOnly {
		dir := filepath.Join(l.opts.Home, "profiles")
		if l.onDisk(filepath.Join(dir, name+".yaml"), false, at, within, own) {
			found = true
		}
		if l.refuseYML(filepath.Join(dir, name+".yml")) {
			found = true
		}
	}
	if !found {
		l.bad.add(at, "", "there is no profile %q; %s", name, l.available(name))
	}
}

// available lists what could have been named.
func (l *loader) available(name string) string {
	names, err := Names(l.opts)
	if err != nil || len(names) == 0 {
		return "give the path of a profile file"
	}
	return "known profiles: " + strings.Join(names, ", ") + DidYouMean(name, names)
}

// onDisk adds the file at path with its chain; it reports whether there is one.
func (l *loader) onDisk(path string, must bool, at Position, within []string, own bool) bool {
	data, ok := l.read(path, must)
	if !ok {
		return false
	}
	if data != nil {
		l.take(&layer{file: path}, data, at, within, own)
	}
	return true
}

// take parses one file of a profile and adds it behind the profiles it extends.
func (l *loader) take(la *layer, data []byte, at Position, within []string, own bool) {
	id := la.file
	if !la.embedded {
		if abs, err := filepath.Abs(la.file); err == nil {
			id = abs
		}
	}
	if slices.Contains(within, id) {
		l.bad.add(at, "extends", "the profile extends itself: %s; remove one of these (a file in the home folder lies on top of the embedded profile of its name without extends)",
			strings.Join(append(slices.Clone(within), id), " → "))
		return
	}
	if l.taken[id] {
		return
	}
	l.taken[id] = true
	if len(within) >= maxExtends {
		l.bad.add(at, "extends", "more than %d profiles extend one another", maxExtends)
		return
	}
	la.parse(data, &l.bad)
	l.misshapen += la.misshapen
	if la.root == nil {
		return
	}
	within = append(slices.Clone(within), id)
	for _, base := range l.extends(la) {
		switch {
		case !isPath(base.text):
			l.named(base.text, base.pos, within, la.embedded, false)
		case la.embedded:
			l.bad.add(base.pos, "extends", "an embedded profile extends embedded profiles only; give a name")
		default:
			path := base.text
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(la.file), path)
			}
			l.onDisk(path, true, base.pos, within, false)
		}
	}
	if s := la.root.get("summary"); s != nil && own {
		l.summary = s.text
	}
	l.add(la)
}

// extends gives the names a file extends.
func (l *loader) extends(la *layer) []*value {
	v := la.root.get("extends")
	if v == nil || v.kind == null {
		return nil
	}
	bases := v.items
	if v.kind != list {
		bases = []*value{v}
	}
	for _, base := range bases {
		if base.kind != text || base.text == "" {
			l.bad.add(base.pos, "extends", "must be the name of a profile or a list of names, not %s", base.describe())
			return nil
		}
	}
	return bases
}

// alone adds a file that lies on top of every profile.
func (l *loader) alone(path string, must bool) {
	data, ok := l.read(path, must)
	if !ok || data == nil {
		return
	}
	la := &layer{file: path}
	la.parse(data, &l.bad)
	l.misshapen += la.misshapen
	if la.root == nil {
		return
	}
	if v := la.root.get("extends"); v != nil {
		l.bad.add(v.pos, "extends", "this file lies on top of a profile and cannot extend one; remove the key, or name the file as the profile")
		return
	}
	l.add(la)
}

func (l *loader) add(la *layer) {
	la.root.remove("extends")
	la.root.remove("summary")
	l.layers = append(l.layers, la)
}

// read gives a file's bytes. ok tells whether the file exists; data is nil when
// it cannot be used, and then that has been reported.
func (l *loader) read(path string, must bool) (data []byte, ok bool) {
	data, err := readFile(path, maxFileBytes)
	switch {
	case err == nil:
		return data, true
	case errors.Is(err, fs.ErrNotExist):
		if _, linkErr := os.Lstat(path); linkErr == nil {
			l.bad.add(Position{File: path}, "", "the file is a link that leads nowhere; repair or remove it")
			return nil, true
		}
		if must {
			l.bad.add(Position{File: path}, "", "the file does not exist")
		}
		return nil, false
	}
	l.bad.add(Position{File: path}, "", "%v", reason(err))
	return nil, true
}

// refuseYML reports a file that would be passed over for its extension.
func (l *loader) refuseYML(path string) bool {
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	l.bad.add(Position{File: path}, "", "files in the home folder end in .yaml; rename or remove this one")
	return true
}

// readFile reads a regular file of at most limit bytes. Anything else could
// block for ever.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("this is a folder, not a file")
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("this is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("the file is larger than %d bytes", limit)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// reason drops the path that a file error repeats.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
