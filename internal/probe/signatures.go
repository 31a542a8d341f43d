package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// Debian's util-linux installs wipefs and blkid at these paths.
const (
	wipefs = "/usr/sbin/wipefs"
	blkid  = "/usr/sbin/blkid"
)

// toolTime is the time limit for wipefs and for blkid. Each tool makes a few hundred reads. On a responsive disk, these
// reads take far less time than toolTime.
const toolTime = 2 * time.Minute

// Signature is one format that wipefs or blkid has recognised on the disk. All strings of a Signature may come from the
// disk, so their content is untrusted.
type Signature struct {
	// Tool is "wipefs" or "blkid".
	Tool string
	// Type is the name that libblkid uses for the format, such as "xfs", "LVM2_member" or "gpt". For an ambivalent
	// result of blkid, Type is the value of ID_FS_AMBIVALENT. If blkid prints no type, Type is "unknown".
	Type string
	// Usage is ID_FS_USAGE from libblkid: "filesystem", "raid", "crypto" or "other". For a partition table or an
	// ambivalent result of blkid, Usage is hotmount's own term "partition table" or "ambivalent". Usage is empty for
	// signatures from wipefs.
	Usage       string
	UUID, Label string
	// Offset is the offset of the magic number in bytes, or zero for signatures from blkid.
	Offset uint64
}

// Signatures returns what wipefs(8) and blkid(8) recognise on the disk with the given device node. wipefs and blkid do
// not write to the disk. Even if the result of blkid is ambivalent, wipefs lists all signatures. blkid also names
// content without a magic number, which wipefs does not list. If Signatures returns an error, the content of the disk
// is unknown.
func Signatures(ctx context.Context, r run.Runner, node string) ([]Signature, error) {
	var w, b []Signature
	var errW, errB error
	// wipefs and blkid run at the same time, because each tool takes longer to start than to read the disk.
	var both sync.WaitGroup
	both.Go(func() { w, errW = askWipefs(ctx, r, node) })
	both.Go(func() { b, errB = askBlkid(ctx, r, node) })
	both.Wait()
	if err := errors.Join(errW, errB); err != nil {
		return nil, err
	}
	return append(w, b...), nil
}

// askWipefs runs wipefs and requires exit code 0, whether wipefs finds a signature or not. wipefs returns 1 for a disk
// that it cannot open.
func askWipefs(ctx context.Context, r run.Runner, node string) ([]Signature, error) {
	c := run.Command{Path: wipefs, Args: []string{"-n", "-J", node}, Timeout: toolTime}
	res, err := r.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := parseWipefs(res.Stdout)
	if err == nil && (res.ExitCode != 0 || len(res.Stderr) != 0) {
		err = errors.New("wipefs failed or printed errors")
	}
	if err != nil {
		return nil, notUnderstood(c, res, err)
	}
	return list, nil
}

// askBlkid runs blkid and relies on its output, because the exit code 2 has several meanings. blkid returns 2 if it
// names nothing, and for a disk that is unreadable, missing or (util-linux 2.39 and later) ambivalent.
func askBlkid(ctx context.Context, r run.Runner, node string) ([]Signature, error) {
	c := run.Command{Path: blkid, Args: []string{"-p", "-o", "udev", node}, Timeout: toolTime}
	res, err := r.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := parseBlkid(res.Stdout)
	if err == nil && len(list) == 0 && (res.ExitCode != 2 || len(res.Stderr) != 0) {
		err = errors.New("blkid names nothing, but printed errors, or its exit code is not 2")
	}
	if err != nil {
		return nil, notUnderstood(c, res, err)
	}
	return list, nil
}

func notUnderstood(c run.Command, res run.Result, err error) error {
	return fmt.Errorf("cannot understand %s: %w (exit code %d, output %q, errors %q)",
		c, err, res.ExitCode, disk.Visible(string(res.Stdout)), disk.Visible(string(res.Stderr)))
}

// parseWipefs parses the output of `wipefs -n -J`. The output of wipefs is always one JSON object, which is
// {"signatures":[]} for a disk without signatures (util-linux 2.38.1).
func parseWipefs(out []byte) ([]Signature, error) {
	var doc struct {
		Signatures *[]struct {
			Device string  `json:"device"`
			Offset *string `json:"offset"`
			Type   *string `json:"type"`
			UUID   *string `json:"uuid"`
			Label  *string `json:"label"`
		} `json:"signatures"`
	}
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(out[d.InputOffset():])) != 0 {
		return nil, errors.New("the output continues after the JSON object")
	}
	if doc.Signatures == nil {
		return nil, errors.New("no list of signatures")
	}
	var list []Signature
	for _, e := range *doc.Signatures {
		if e.Type == nil || *e.Type == "" || e.Offset == nil {
			return nil, errors.New("a signature without type or offset")
		}
		offset, err := strconv.ParseUint(*e.Offset, 0, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, Signature{Tool: "wipefs", Type: *e.Type, Offset: offset, UUID: word(e.UUID), Label: word(e.Label)})
	}
	return list, nil
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// parseBlkid parses the output of `blkid -p -o udev`, which has one KEY=value in each line. Values of keys that end in
// _ENC contain \x escapes. Any output of blkid means content, so output without a type becomes a signature of the type
// "unknown".
func parseBlkid(out []byte) ([]Signature, error) {
	if len(out) == 0 {
		return nil, nil
	}
	words := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !found || key == "" {
			return nil, fmt.Errorf("line %q", disk.Visible(line))
		}
		if _, twice := words[key]; twice {
			return nil, fmt.Errorf("the key %s occurs twice", disk.Visible(key))
		}
		words[key] = value
	}
	var list []Signature
	if t := words["ID_FS_TYPE"]; t != "" {
		list = append(list, Signature{
			Tool: "blkid", Type: t, Usage: words["ID_FS_USAGE"],
			UUID: disk.Unescape(words["ID_FS_UUID_ENC"]), Label: disk.Unescape(words["ID_FS_LABEL_ENC"]),
		})
	}
	if t := words["ID_FS_AMBIVALENT"]; t != "" {
		list = append(list, Signature{Tool: "blkid", Type: t, Usage: "ambivalent"})
	}
	if t := words["ID_PART_TABLE_TYPE"]; t != "" {
		list = append(list, Signature{Tool: "blkid", Type: t, Usage: "partition table"})
	}
	if len(list) == 0 {
		list = append(list, Signature{Tool: "blkid", Type: "unknown"})
	}
	return list, nil
}
