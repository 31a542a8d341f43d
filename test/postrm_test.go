package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPostrmIsLedNowhere checks that a user who can write to a class directory cannot misdirect postrm. While postrm
// calls ls for a leftover mount point, the user replaces the mount point by a symlink. postrm must not touch the target
// of the symlink. postrm must remove a leftover mount point with an empty marker file, and keep a mount point whose
// marker file has content.
func TestPostrmIsLedNowhere(t *testing.T) {
	script, err := os.Open("../packaging/debian/postrm")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	for name, ls := range map[string]string{
		"swapped": `mv "$2" "$2.away" && ln -s "$VICTIM" "$2"`,
		"left":    `true`,
		"written": `echo data >"$2/not-mounted"`,
	} {
		dir := t.TempDir()
		point, victim, bin := filepath.Join(dir, "class", uuid), filepath.Join(dir, "victim"), filepath.Join(dir, "bin")
		for _, d := range []string{point, victim, bin} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for path, text := range map[string]string{filepath.Join(point, "not-mounted"): "", filepath.Join(victim, "not-mounted"): "", filepath.Join(bin, "ls"): "#!/bin/sh\n" + ls + "\n"} {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("sh", "-ec", `eval "$(sed -n '/^remove_leftovers()/,/^}/p')"; remove_leftovers "$1"`, "sh", filepath.Join(dir, "class"))
		if _, err := script.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		c.Stdin = script
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "VICTIM="+victim)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, err := os.Lstat(filepath.Join(victim, "not-mounted")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(point); os.IsNotExist(err) != (name == "left") {
			t.Errorf("%s: the leftover: %v", name, err)
		}
	}
}
