package tool

// Advice is what a stage in front of the rules says of a call: a hook's verdict
// (spec stream-json 6.5). The rules take it up, so that a refusal is recorded in
// one place, whoever it comes from.
type Advice struct {
	// Behavior is allow, ask or deny; "" is no opinion. allow spares the call a
	// question, but no rule; ask has somebody asked though a rule allows.
	Behavior string
	// Reason is for the model when the call is refused, for people when they are
	// asked.
	Reason string
	// Interrupt ends the turn of a call that is denied.
	Interrupt bool
}
