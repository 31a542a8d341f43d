package agent

import (
	"reflect"
	"testing"
)

// TestInterfacesAreSmall limits the number of methods that the loop needs from other packages.
func TestInterfacesAreSmall(t *testing.T) {
	n := reflect.TypeFor[Host]().NumMethod() + reflect.TypeFor[Units]().NumMethod() + reflect.TypeFor[Reporter]().NumMethod()
	if n > 20 {
		t.Errorf("the loop's interfaces have %d methods, at most 20 are allowed", n)
	}
}
