package streamjson

// Rewound is the answer to rewind_files (spec stream-json 4.16). A refusal has
// Error, which says why, and nothing else; what can be done has the rest: absolute
// paths, and lines of the difference from the present state to the restored one.
type Rewound struct {
	CanRewind    bool     `json:"canRewind"`
	Error        string   `json:"error,omitzero"`
	FilesChanged []string `json:"filesChanged,omitzero"`
	Insertions   *int     `json:"insertions,omitzero"`
	Deletions    *int     `json:"deletions,omitzero"`
}
