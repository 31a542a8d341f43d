package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is printed fits; what does not has code 3 and is named.
func TestProvisioner(t *testing.T) {
	values, code, err := call(t, "provisioner", "values")
	if code != 0 || err != nil {
		t.Fatalf("code %d, %v, %q", code, err, values)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	for _, test := range []struct {
		content string
		code    int
		want    string
	}{
		{values, 0, file + " fits the configuration\n"},
		{strings.Replace(values, "/mnt/disks", "/mnt/fast", 1), 3, "class default: no class has hostDir /mnt/disks: "},
		{"x: y", 1, ""},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code, err := call(t, "provisioner", "check", file); code != test.code || !strings.HasPrefix(out, test.want) {
			t.Errorf("%q: code %d, %v, %q", test.content, code, err, out)
		}
	}
	if out, code, err := call(t, "provisioner", "check", file+".not"); code != 1 || err == nil {
		t.Errorf("no file: code %d, %v, %q", code, err, out)
	}
}
