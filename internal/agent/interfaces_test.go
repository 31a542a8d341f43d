package agent

import (
	"reflect"
	"testing"
)

// TestInterfacesAreSmall bounds what the loop needs from others.
func TestInterfacesAreSmall(t *testing.T) {
	n := reflect.TypeFor[Host]().NumMethod() + reflect.TypeFor[Units]().NumMethod() + reflect.TypeFor[Reporter]().NumMethod()
	if n > 20 {
		t.Errorf("the loop's interfaces have %d methods, at most 20 are allowed", n)
	}
}
