package disk

import "testing"

func TestMkfsOption(t *testing.T) {
	for s, want := range map[string]bool{
		"-i size=1024": true, "-d su=64k,sw=4": true, "-d noalign": true, "-n size=16k": true, "-l size=64m": true, "-m reflink=0,rmapbt=1": true,
		"": false, "-f": false, "-f size=1": false, "-K": false, "-N": false, "-m uuid=1": false, "-m crc=0": false, "-b size=1024": false, "-s size=4096": false,
		"-c options=1": false, "-p file=1": false, "-d name=1": false, "-d file=1": false, "-d size=1": false, "-l logdev=1": false, "-r rtdev=1": false, "-L x": false,
		"-i size": false, "-i size=": false, "-i": false, "-i size=1024 -f": false, "-i  size=1024": false, "-i size=1,": false, "-d noalign=1": false,
		"-i size=-1": false, "-i size=/dev/vda": false, "size=1024": false, "-i size=1024\n": false, "-i\tsize=1024": false, "/dev/vda": false,
	} {
		if MkfsOption(s) != want {
			t.Errorf("MkfsOption(%q) is not %v", s, want)
		}
	}
}
