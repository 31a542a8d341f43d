//go:build rest

package main

import (
	"testing"
	"time"
)

// TestForcegcperiod: it is the runtime's variable that is set. TestRests has what comes of it.
func TestForcegcperiod(t *testing.T) {
	if usualPeriod != 2*time.Minute {
		t.Errorf("the runtime has %s in it: is it another variable's name now?", usualPeriod)
	}
	if got := time.Duration(forcegcperiod); got != 24*time.Hour {
		t.Errorf("it is %s", got)
	}
}
