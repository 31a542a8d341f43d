// Package helper has the one-shot programs. hotmount's units run most programs for one disk with few rights, and root
// runs the others by hand. Each program has its own file in the package. The programs decide with the same function as
// the daemon (package policy), on facts that they gather themselves.
package helper
