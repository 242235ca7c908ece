package instructions

// Start makes and registers a row.
func Start(p Params) (*Instructions, error) {
	i, err := New(p)
	if err != nil {
		return nil, err
	}
	return i, i.register()
}
