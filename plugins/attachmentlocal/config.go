package attachmentlocal

// Config says where the files are; an empty one is valid. The limits of images
// are those of the protocol and not to be configured (spec jsonrpc 9.8).
type Config struct {
	// Dir is the folder of the images. "" is attachments below $DSH_HOME; a
	// relative path is below $DSH_HOME.
	Dir string `json:"dir"`
}

func defaults() Config { return Config{} }
