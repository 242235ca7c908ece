package commands

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/plugins"
	"dsh/plugins/streamjson/transcript"
	"dsh/sdkproto"
)

// Sessions is the command sessions.
func (p Set) Sessions() *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, export and delete stored sessions",
		Long: `sessions works on the sessions that a profile keeps, that of --profile or ` + p.Default + `:
where they are is up to its row with the session store.`,
	}
	c.AddCommand(p.sessionsList(), p.sessionsShow(), p.sessionsExport(), p.sessionsDelete())
	return p.named(c)
}

// withStore runs f with the session store of the profile. Of the rows only the
// store's, and what it needs, are composed.
func (p Set) withStore(ctx context.Context, f func(session.Store) error) (err error) {
	loaded, err := p.LoadProfile(p.ProfileName())
	if err != nil {
		return err
	}
	opts := p.KernelOptions(kernel.Only[session.Store](plugins.Builtin(), loaded))
	k, err := kernel.Compose(ctx, opts)
	if err != nil {
		return err
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Stop()) }()
	store, ok := kernel.Seam[session.Store](k)
	if !ok {
		return fmt.Errorf("profile %s keeps no sessions: no enabled row of it provides a session store", loaded.Name)
	}
	return f(store)
}

func (p Set) sessionsList() *cobra.Command {
	var (
		cwd         string
		all, asJSON bool
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sessions of this folder, newest first",
		Long: `list shows the sessions that the profile keeps and those that have only a transcript
where the Agent SDKs look, such as one that another program has made. The latter can
be resumed like the others by dcl --resume, which then keeps them, too.`,
		Example: `  dsh sessions list
  dsh sessions list --all --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if all && c.Flags().Changed("cwd") {
				return launch.Usage(errors.New("--all and --cwd exclude each other"))
			}
			return p.listSessions(c.Context(), cwd, all, asJSON)
		},
	}
	c.Flags().StringVar(&cwd, "cwd", ".", "list the sessions of another `folder`")
	c.Flags().BoolVar(&all, "all", false, "list the sessions of every folder")
	JSONFlag(c, &asJSON)
	return c
}

// listed is a session as a listing shows it.
type listed struct {
	session.Header
	Title string `json:"title,omitzero"`
	// Transcript is the file of a session that is nowhere else.
	Transcript string `json:"transcript,omitzero"`
}

// withTranscripts adds to the stored sessions those that have only a transcript of
// the SDKs, newest first. A name in a transcript goes ahead of other titles: the
// SDKs rename a session there alone (spec stream-json 10.2).
func withTranscripts(stored []listed, transcripts []transcript.Info) []listed {
	known := map[string]int{}
	for i := range stored {
		known[stored[i].ID] = i
	}
	for _, t := range transcripts {
		if i, ok := known[t.SessionID]; ok {
			stored[i].Title = cmp.Or(t.Named, stored[i].Title, t.Title)
			continue
		}
		known[t.SessionID] = len(stored)
		stored = append(stored, listed{
			Header: session.Header{ID: t.SessionID, CreatedAt: t.Created.UnixMilli(), CWD: t.CWD},
			Title:  cmp.Or(t.Named, t.Title), Transcript: t.Path,
		})
	}
	slices.SortStableFunc(stored, func(a, b listed) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	return stored
}

func (p Set) listSessions(ctx context.Context, cwd string, all, asJSON bool) error {
	if all {
		cwd = ""
	} else {
		abs, err := filepath.Abs(cwd)
		if err != nil {
			return fmt.Errorf("folder %q: %w", cwd, err)
		}
		cwd = abs
	}
	found := []listed{}
	err := p.withStore(ctx, func(store session.Store) error {
		headers, err := store.List(ctx, cwd)
		if err != nil {
			return err
		}
		for _, h := range headers {
			title, err := titleOf(ctx, store, h.ID)
			if err != nil {
				p.Say("%v", err)
			}
			found = append(found, listed{Header: h, Title: title})
		}
		found = withTranscripts(found, transcript.List(cwd))
		for i := range found {
			found[i].Title = strings.Join(strings.Fields(found[i].Title), " ")
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return p.PrintJSON(found)
	case len(found) == 0 && all:
		p.Say("there are no sessions")
		return nil
	case len(found) == 0:
		p.Say("there are no sessions of %s; --all lists those of every folder", cwd)
		return nil
	}
	rows := [][]string{{"ID", "CREATED", "TITLE"}}
	if all {
		rows[0] = append(rows[0], "FOLDER")
	}
	for _, s := range found {
		row := []string{s.ID, stamp(s.CreatedAt), s.Title}
		if all {
			row = append(row, s.CWD)
		}
		rows = append(rows, row)
	}
	return p.PrintTable(rows)
}

func stamp(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05") }

// titleOf gives the title a session had last; "" for none.
func titleOf(ctx context.Context, store session.Store, id string) (title string, err error) {
	if t, ok := store.(session.Titler); ok {
		return t.Title(ctx, id)
	}
	err = store.Read(ctx, id, 0, func(r *session.Record) error {
		if r.Event.Type != sdkproto.TypeSessionTitle {
			return nil
		}
		t, err := session.Decode[sdkproto.SessionTitle](r)
		title = t.Title
		return err
	})
	return title, err
}

// elsewhere says of a session that is not stored where it is, if it has a
// transcript.
func elsewhere(err error, id string) error {
	if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	for _, t := range transcript.List("") {
		if t.SessionID == id {
			return fmt.Errorf("%w; it has only the transcript %s, which dcl --resume %s takes up", err, t.Path, id)
		}
	}
	return err
}

func (p Set) sessionsShow() *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Print a session as people read it",
		Long: `show prints the prompts, answers, calls and results of a session; long results are
shortened. --events prints its events as they are, one on each line.`,
		Example: `  dsh sessions show 0b5c8f9e-2f1d-4b1e-9a55-3c8f5f0d1e2a
  dsh sessions show ID --events | grep tool/call`,
		Args:              Arguments(1, 1, "the id of one session; "+p.Name+" sessions list --all shows them"),
		ValidArgsFunction: p.CompleteSessions,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return p.withStore(ctx, func(store session.Store) error {
				out := bufio.NewWriter(p.Pair.Out)
				if events {
					return errors.Join(elsewhere(writeEvents(ctx, out, store, args[0]), args[0]), out.Flush())
				}
				h, err := store.Header(ctx, args[0])
				if err != nil {
					return elsewhere(err, args[0])
				}
				s := NewScreen(out)
				s.Line("session %s\ncreated %s in %s", h.ID, stamp(h.CreatedAt), h.CWD)
				err = store.Read(ctx, h.ID, 0, func(r *session.Record) error { return s.stored(&r.Event) })
				return errors.Join(err, out.Flush())
			})
		},
	}
	c.Flags().BoolVar(&events, "events", false, "print the events as JSON, one on each line")
	return c
}

func writeEvents(ctx context.Context, w io.Writer, store session.Store, id string) error {
	return store.Read(ctx, id, 0, func(r *session.Record) error {
		_, err := fmt.Fprintf(w, "%s\n", r.Raw)
		return err
	})
}

// Forms of an export.
const (
	exportLines    = "jsonl"
	exportMarkdown = "markdown"
)

func (p Set) sessionsExport() *cobra.Command {
	var form, file string
	c := &cobra.Command{
		Use:   "export ID",
		Short: "Write a whole session to standard output or a file",
		Long: `export writes a session in one of two forms:

  jsonl      a header line and then every event on a line of its own: a session log
             that any program of this kind can read
  markdown   prompts, answers, calls and results in full, for people`,
		Example: `  dsh sessions export ID > session.jsonl
  dsh sessions export ID --format markdown -o session.md`,
		Args:              Arguments(1, 1, "the id of one session; "+p.Name+" sessions list --all shows them"),
		ValidArgsFunction: p.CompleteSessions,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			write, ok := map[string]func(context.Context, io.Writer, session.Store, session.Header) error{
				exportLines: writeLog, exportMarkdown: writeMarkdown,
			}[form]
			if !ok {
				return launch.Usage(fmt.Errorf("--format %q is no form of an export; use %s or %s", form, exportLines, exportMarkdown))
			}
			return p.withStore(ctx, func(store session.Store) error {
				h, err := store.Header(ctx, args[0])
				if err != nil {
					return elsewhere(err, args[0])
				}
				return p.Output(file, func(w io.Writer) error { return write(ctx, w, store, h) })
			})
		},
	}
	c.Flags().StringVar(&form, "format", exportLines, "jsonl or markdown")
	c.Flags().StringVarP(&file, "output", "o", "-", "`file` to write; - is standard output")
	if err := c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{exportLines, exportMarkdown}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there: a mistake of this package
	}
	return c
}

func writeLog(ctx context.Context, w io.Writer, store session.Store, h session.Header) error {
	line, err := session.AppendHeader(nil, &h)
	if err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	return writeEvents(ctx, w, store, h.ID)
}

func (p Set) sessionsDelete() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete ID...",
		Short: "Remove sessions and what belongs to them",
		Long: `delete removes sessions for good. It asks first; where there is no terminal to ask
on, --yes must say so. A session that a process uses is not removed.`,
		Args:              Arguments(1, 0, "ids of sessions; "+p.Name+" sessions list --all shows them"),
		ValidArgsFunction: p.CompleteSessions,
		RunE: func(c *cobra.Command, ids []string) error {
			if !yes && !p.Pair.Terminal() {
				return launch.Usage(errors.New("there is no terminal to ask on; add --yes to delete without a question"))
			}
			ctx := c.Context()
			return p.withStore(ctx, func(store session.Store) error { return p.deleteSessions(ctx, store, ids, yes) })
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// deleteSessions removes all sessions or, when one of them is not there, none.
func (p Set) deleteSessions(ctx context.Context, store session.Store, ids []string, yes bool) error {
	var errs []error
	for _, id := range ids {
		// A session whose head cannot be read may be deleted all the same.
		if _, err := store.Header(ctx, id); errors.Is(err, session.ErrNotFound) {
			errs = append(errs, elsewhere(err, id))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was deleted: %w", errors.Join(errs...))
	}
	if !yes {
		fmt.Fprintf(p.Stderr, "Delete %s for good? [y/N] ", strings.Join(ids, ", "))
		answer, err := bufio.NewReader(p.Pair.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the answer: %w", err)
		}
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return errors.New("nothing was deleted")
		}
	}
	for _, id := range ids {
		if err := store.Delete(ctx, id); err != nil {
			var used *session.InUseError
			if errors.As(err, &used) {
				err = fmt.Errorf("%w; end that process, or wait until it is done", err)
			}
			errs = append(errs, err)
			continue
		}
		if err := p.Printf("deleted %s\n", id); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
