package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"dsh/sdkproto/wirejson"
)

// jsonFlag gives a command the flag that makes its output one JSON value.
func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print one JSON value instead of text")
}

func (p *program) printJSON(v any) error {
	data, err := wirejson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return p.printf("%s\n", &b)
}

// printTable prints rows of cells in columns, the heads first.
func (p *program) printTable(rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var lines strings.Builder
	for line := range strings.Lines(b.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return p.printf("%s", plain(lines.String()))
}
