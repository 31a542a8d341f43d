// Package helper contains hotmount's one-shot programs. systemd units run many of these programs with few privileges,
// usually one unit for each disk. People or the package's scripts run the other programs. A program that decides about
// a disk uses the same function as the daemon (package policy), with facts that the program itself gathers.
package helper
