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
		if MkfsOption(XFS, s) != want {
			t.Errorf("MkfsOption(%q) is not %v", s, want)
		}
	}
}

func TestMkfsOptionExt4(t *testing.T) {
	for s, want := range map[string]bool{
		"-m 0": true, "-i 65536": true, "-N 100000": true, "-E stride=16,stripe_width=64": true, "-J size=64": true,
		"-F": false, "-F 1": false, "-n": false, "-c": false, "-m": false, "-m ": false, "-m 0 -F": false, "-m 0,1": false, "-b 1024": false, "-O ^metadata_csum": false,
		"-E discard": false, "-E stride": false, "-E root_owner=1:1": false, "-E lazy_journal_init=1": false, "-E offset=1": false, "-E stride=1,discard": false, "-U 1": false,
		"-J device=/dev/vda": false, "-J 1": false, "-d /etc": false, "-T small": false, "-I 128": false, "-z 1": false, "-l 1": false, "-L 1": false, "-S": false, "/dev/vda": false,
		"-i size=1024": false, "-m reflink=0": false, "-m -1": false,
	} {
		if MkfsOption(Ext4, s) != want {
			t.Errorf("MkfsOption(%q) is not %v", s, want)
		}
	}
}
