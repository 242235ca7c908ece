package tooljob

// Register composes the plugin by hand.
func Register(p Params) error { return New(p).register() }
