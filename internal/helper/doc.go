// Package helper contains hotmount's one-shot programs. systemd units run most of these programs with few privileges,
// usually one unit for each disk. Root runs the other programs by hand. Each program has its own file in the package.
// Each program makes decisions with the same function as the daemon (package policy), from facts that the program
// itself gathers.
package helper
