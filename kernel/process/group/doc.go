// Package group holds what everybody needs who starts programs and answers for
// what they leave behind (case B76): process groups, markers in the environment
// by which descendants are found that left their group, and a guard that ends
// them when the harness itself was killed.
package group
