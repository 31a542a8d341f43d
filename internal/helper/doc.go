// Package helper has the one-shot programs: what hotmount's units run for one disk with the
// few rights that it takes, and what root runs by hand. Each has a file of its own. What it
// decides it decides with the daemon's own function (package policy), on facts that it gathers
// itself.
package helper
