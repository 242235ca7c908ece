package budget

// Register is what the row does when it starts.
func (b *Budget) Register() error { return b.register() }

// Sessions counts the sessions that there is something of.
func (b *Budget) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}
