package subagent

// Register puts the tools into the registry, as the row does.
func (s *Subagents) Register() error { return s.register() }
