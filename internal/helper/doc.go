// Package helper has the one-shot programs. hotmount's units run them for one disk with few rights, and root runs them
// by hand. Each has its own file. They decide with the daemon's function (package policy), on facts that they gather
// themselves.
package helper
