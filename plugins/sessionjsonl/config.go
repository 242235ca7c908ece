package sessionjsonl

// Config says where the files are; an empty one is valid.
type Config struct {
	// Dir is the folder of the session files. "" is sessions.d below $DSH_HOME; a
	// relative path is below $DSH_HOME.
	Dir string `json:"dir"`
}

func defaults() Config { return Config{} }
