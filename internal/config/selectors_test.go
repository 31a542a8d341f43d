package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func TestSelectorsOfFile(t *testing.T) {
	yes, no := true, false
	s, err := Load(source(t, `exclude:
- {serial: [OLD-*]}
- removable: true
classes:
- name: a
  directory: /a
  names: ["dm-*", "re:dm-[0-9]+", "*"]
  transport: [dm, virtio, scsi, nvme]
  serial: ["S 1", "re:S[0-9]+"]
  wwn: [naa.5*]
  model: [QEMU*]
  vendor: ["0x1af4"]
  by_path: ["pci-0000:05:*"]
  size: 5GiB..10GB
  rotational: false
  removable: true
  local: true
  logical_sector: [512, 4096]
- {name: b, directory: /b, size: ..1TiB}
- {name: e, directory: /e, size: 5GiB..5GiB}
- {name: c, directory: /c}
- {name: d, directory: /d, names: ["dm-*"], mapper_names: [vg-a]}
`, nil))
	if err != nil {
		t.Fatal(err)
	}
	got := [][]disk.Selectors{s.Exclude, {s.Classes[0].Selectors, s.Classes[1].Selectors, s.Classes[2].Selectors, s.Classes[3].Selectors, s.Classes[4].Selectors}}
	want := [][]disk.Selectors{{{Serial: []string{"OLD-*"}}, {Removable: &yes}}, {
		{
			Names: []string{"dm-*", "re:dm-[0-9]+", "*"}, Transport: []string{"dm", "virtio", "scsi", "nvme"},
			Serial: []string{"S 1", "re:S[0-9]+"}, WWN: []string{"naa.5*"}, Model: []string{"QEMU*"}, Vendor: []string{"0x1af4"}, ByPath: []string{"pci-0000:05:*"},
			Size: disk.SizeRange{Least: 5 << 30, Most: 10e9}, Rotational: &no, Removable: &yes, Local: &yes, LogicalSector: []uint32{512, 4096},
		},
		{Size: disk.SizeRange{Most: 1 << 40}},
		{Size: disk.SizeRange{Least: 5 << 30, Most: 5 << 30}},
		{Transport: []string{"virtio", "virtio-scsi"}, Vendor: []string{"0x*", "QEMU"}},
		{Names: []string{"dm-*"}, MapperNames: []string{"vg-a"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsOfSelectors(t *testing.T) {
	for line, want := range map[string]string{
		"size: 5":                                        "classes[0].size: found the number 5, " + rangeWords,
		"size: 10GiB..5GiB":                              `classes[0].size: found "10GiB..5GiB", ` + rangeWords,
		"mkfs_options: [5]":                              "classes[0].mkfs_options[0]: found the number 5, expected an option of mkfs in quotes",
		"size: 10GiB":                                    `classes[0].size: found "10GiB", ` + rangeWords,
		"size: ..":                                       `classes[0].size: found "..", ` + rangeWords,
		"size: 0GiB..":                                   `classes[0].size: found "0GiB..", ` + rangeWords,
		"size: 0GiB..5GiB":                               `classes[0].size: found "0GiB..5GiB", ` + rangeWords,
		"size: 5G..":                                     `classes[0].size: found "5G..", ` + rangeWords,
		"transport: [sata]":                              `classes[0].transport[0]: found "sata", expected virtio, virtio-scsi, scsi, nvme or dm`,
		"rotational: 1":                                  "classes[0].rotational: found the number 1, expected true or false",
		"logical_sector: [513]":                          "classes[0].logical_sector[0]: found the number 513, expected a size of sectors in bytes: 512, 1024, 2048 or 4096",
		"logical_sector: 512":                            "classes[0].logical_sector: found the number 512, expected a list, each entry a size of sectors in bytes: 512, 1024, 2048 or 4096",
		"serial: [\"re:(\"]":                             "classes[0].serial[0]: found \"re:(\", expected a regular expression (RE2); error parsing regexp: missing closing ): `(`",
		"serial: [\"\"]":                                 `classes[0].serial[0]: found "", ` + textWords,
		"serial: [\"a\\tb\"]":                            `classes[0].serial[0]: found "a\tb", ` + textWords,
		"serial: [\"[\"]":                                `classes[0].serial[0]: found "[", ` + textWords + "; a bracket is not closed, or nothing follows a backslash",
		"serial: [\"a[z-b]\"]":                           `classes[0].serial[0]: found "a[z-b]", expected a pattern that can match a disk: in [z-a] the first character comes after the last`,
		`mkfs_options: ["-f"]`:                           `classes[0].mkfs_options[0]: found "-f", expected ` + expectedMkfs,
		`mkfs_options: ["-i size=1024 -f"]`:              `classes[0].mkfs_options[0]: found "-i size=1024 -f", expected ` + expectedMkfs,
		`mkfs_options: ["-m crc=0"]`:                     `classes[0].mkfs_options[0]: found "-m crc=0", expected ` + expectedMkfs,
		`mkfs_options: ["-m uuid=1"]`:                    `classes[0].mkfs_options[0]: found "-m uuid=1", expected ` + expectedMkfs,
		`mkfs_options: ["-d agcount"]`:                   `classes[0].mkfs_options[0]: found "-d agcount", expected ` + expectedMkfs,
		`mkfs_options: ["-d noalign,name=/x"]`:           `classes[0].mkfs_options[0]: found "-d noalign,name=/x", expected ` + expectedMkfs,
		`root_owner: "1000"`:                             `classes[0].root_owner: found "1000", expected ` + rootOwner.expected,
		`root_owner: "-1:0"`:                             `classes[0].root_owner: found "-1:0", expected ` + rootOwner.expected,
		`root_owner: "4294967295:0"`:                     `classes[0].root_owner: found "4294967295:0", expected ` + rootOwner.expected,
		"root_mode: 0755":                                `classes[0].root_mode: found the number 0755, expected ` + rootMode.expected,
		`root_mode: "1777"`:                              `classes[0].root_mode: found "1777", expected ` + rootMode.expected,
		"names: ['loop*']":                               `classes[0].names[0]: found "loop*" without backing_file, expected both keys: a class selects loop devices only if it has both`,
		"names: [vdb, 're:loop[0-9]']":                   `classes[0].names[1]: found "re:loop[0-9]" without backing_file, expected both keys: a class selects loop devices only if it has both`,
		"names: ['re:loop[0-9]|vdb']":                    `classes[0].names[0]: found "re:loop[0-9]|vdb" without backing_file, expected both keys: a class selects loop devices only if it has both`,
		"names: ['lo*']":                                 `classes[0].names[0]: found "lo*" without backing_file, expected both keys: a class selects loop devices only if it has both`,
		"backing_file: [/srv/ci/a]":                      `classes[0].backing_file: found backing_file without "loop*" in names, expected both keys: a class selects loop devices only if it has both`,
		"names: ['loop*'], backing_file: ['/*']":         `classes[0].backing_file[0]: found "/*", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['/s*/a']":      `classes[0].backing_file[0]: found "/s*/a", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['srv/a']":      `classes[0].backing_file[0]: found "srv/a", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: [\"/s\\tv/a\"]": `classes[0].backing_file[0]: found "/s\tv/a", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['/s[r]v/a']":   `classes[0].backing_file[0]: found "/s[r]v/a", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['/srv']":       `classes[0].backing_file[0]: found "/srv", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['/srv/../a']":  `classes[0].backing_file[0]: found "/srv/../a", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['/srv/[']":     `classes[0].backing_file[0]: found "/srv/[", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
		"names: ['loop*'], backing_file: ['re:/srv/.*']": `classes[0].backing_file[0]: found "re:/srv/.*", expected an absolute path whose first directory has no wildcard, such as /srv/ci/*.img`,
	} {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "{"), "}")
		src := source(t, "classes: [{name: a, directory: /a, "+line+"}]", nil)
		_, err := Load(src)
		if got := strings.TrimPrefix(message(src, err), "FILE:1: "); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
		}
	}
	for file, want := range map[string]string{
		"exclude: [{}]": "FILE:1: exclude[0]: found no selector, expected at least one of " + strings.Join(names(selectorKeys), ", "),
		"exclude: [{serial: [0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f]}]": `FILE:1: exclude[0].serial[0]: found "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f", expected at most 20 characters: virtio shortens each serial to this length (if you mean other disks, name their transport, such as transport: [scsi])`,
		"exclude: [{serial: [0b0f1c6e-2b3c-4d61-9c2*]}]":              `FILE:1: exclude[0].serial[0]: found "0b0f1c6e-2b3c-4d61-9c2*", expected at most 20 characters: virtio shortens each serial to this length (if you mean other disks, name their transport, such as transport: [scsi])`,
		"exclude: [{transport: [virtio], wwn: [naa.5*]}]":             `FILE:1: exclude[0].wwn: found "naa.5*", expected none: virtio disks have no wwn`,
		"exclude: [{names: ['vd*'], model: [X]}]":                     `FILE:1: exclude[0].model: found "X", expected none: virtio disks have no model`,
		"exclude: [{transport: [nvme], vendor: [Samsung]}]":           `FILE:1: exclude[0].vendor: found "Samsung", expected none: nvme disks have no vendor`,
		"exclude: [{transport: [nvme], wwn: ['naa.*']}]":              `FILE:1: exclude[0].wwn[0]: found "naa.*", ` + nvmeWords,
		"exclude: [{mapper_names: [a], model: [X]}]":                  `FILE:1: exclude[0].model: found "X", expected none: dm disks have no model`,
		"exclude: [{names: ['vd*'], mapper_names: [a]}]":              `FILE:1: exclude[0].mapper_names: found "a", expected none: virtio disks have no mapper_names`,
		"exclude: [{transport: [scsi, nvme], mapper_names: [a]}]":     `FILE:1: exclude[0].mapper_names: found "a", expected none: scsi and nvme disks have no mapper_names`,
		"exclude: [{transport: [nvme], names: [vdb]}]":                `FILE:1: exclude[0].names[0]: found "vdb", expected a pattern that can match a disk: the exclusion matches only disks with the transport nvme`,
		"exclude: [{names: [nvme0]}]":                                 `FILE:1: exclude[0].names[0]: found "nvme0", ` + diskWords,
		"exclude: [{serial: ['[b-a]'], model: ['re:Samsung SSD 870 EVO.*'], transport: [scsi]}]": `FILE:1: exclude[0].serial[0]: found "[b-a]", expected a pattern that can match a disk: in [z-a] the first character comes after the last` + "\n" +
			`FILE:1: exclude[0].model[0]: found "re:Samsung SSD 870 EVO.*", expected at most 16 characters: scsi shortens each model to this length`,
		"exclude: [{partitions: false}]":                                                             "FILE:1: exclude[0]: found no selector, expected at least one of " + strings.Join(names(selectorKeys), ", "),
		"exclude: [{transport: [virtio], names: [sdb], serial: [x]}]":                                `FILE:1: exclude[0].names[0]: found "sdb", expected a pattern that can match a disk: the exclusion matches only disks with the transport virtio`,
		"exclude: [{names: ['*'], serial: [ABCDEFGHIJKLMNOPQRSTU]}]":                                 `FILE:1: exclude[0].serial[0]: found "ABCDEFGHIJKLMNOPQRSTU", expected at most 20 characters: virtio shortens each serial to this length (if you mean other disks, name their transport, such as transport: [scsi])`,
		"exclude: [{transport: [virtio], names: ['*'], wwn: [x]}]":                                   `FILE:1: exclude[0].wwn: found "x", expected none: virtio disks have no wwn`,
		"exclude: [{names: [dm-]}]":                                                                  `FILE:1: exclude[0].names[0]: found "dm-", ` + diskWords,
		"exclude: [{nane: x}]":                                                                       `FILE:1: exclude[0].nane: unknown key, did you mean "names"?`,
		"classes:\n- {name: a, directory: /a, serial: [x]}\n- {name: b, directory: /b, serial: [x]}": "FILE:3: classes[1]: found the same selectors as in classes[0] (line 2), expected different selectors: classes[0] (line 2) comes first and gets every such disk",
	} {
		src := source(t, file, nil)
		_, err := Load(src)
		if got := message(src, err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", file, got, want)
		}
	}
}

// TestSelectorsWithoutDisks checks that an exclusion is a fault if its selectors show that no disk can match. Load must
// accept the same selectors in a class, because the command `hotmount plan` reports a class that selects no disk.
func TestSelectorsWithoutDisks(t *testing.T) {
	for line, want := range map[string]string{
		"names: [\"d*\"]":                                                          "",
		"names: [\"dm?\"]":                                                         "",
		"names: [\"re:[^\\\\x00-\\\\x{10FFFF}]\"]":                                 "",
		"{transport: [virtio], serial: [ABCDEFGHIJKLMNOPQRSTU]}":                   `exclude[0].serial[0]: found "ABCDEFGHIJKLMNOPQRSTU", expected at most 20 characters: virtio shortens each serial to this length`,
		"{transport: [nvme], names: [vdb]}":                                        `exclude[0].names[0]: found "vdb", expected a pattern that can match a disk: the exclusion matches only disks with the transport nvme`,
		"{transport: [virtio-scsi], names: [vdb]}":                                 `exclude[0].names[0]: found "vdb", expected a pattern that can match a disk: the exclusion matches only disks with the transport virtio-scsi`,
		"{transport: [virtio-scsi, scsi], names: [sdb], vendor: [QEMU], wwn: [x]}": "",
		"{names: [vdb], serial: [\"ABCDEFGHIJKLMNOPQRS-?*\"]}":                     `exclude[0].serial[0]: found "ABCDEFGHIJKLMNOPQRS-?*", expected at most 20 characters: virtio shortens each serial to this length`,
		"{names: [vdb], serial: [\"re:A{21}|B{22,}\"]}":                            `exclude[0].serial[0]: found "re:A{21}|B{22,}", expected at most 20 characters: virtio shortens each serial to this length`,
		"{serial: [\"re:WD-[0-9A-Z]{22}\"]}":                                       `exclude[0].serial[0]: found "re:WD-[0-9A-Z]{22}", expected at most 20 characters: virtio shortens each serial to this length (if you mean other disks, name their transport, such as transport: [scsi])`,
		"{vendor: [\"Red Hat Inc\"]}":                                              `exclude[0].vendor[0]: found "Red Hat Inc", expected a value that begins with 0x, as the vendor of every virtio disk does; or at most 8 characters: scsi shortens each vendor to this length`,
		"{names: [vdb], model: [X]}":                                               `exclude[0].model: found "X", expected none: virtio disks have no model`,
		"{transport: [virtio], wwn: [naa.5*]}":                                     `exclude[0].wwn: found "naa.5*", expected none: virtio disks have no wwn`,
		`wwn: ["0x5000*"]`:                                                         `exclude[0].wwn[0]: found "0x5000*", expected the value in /sys/block/DISK/wwid or /sys/block/DISK/device/wwid; did you mean "naa.5000*"?`,
		"names: [vdb1]":                                                            "",
		"names: [\"sd[a-z][1-9]\"]":                                                "",
		"{names: [\"vd[b-d]\"], partitions: true}":                                 "",
		"transport: [dm]":                                                          "",
		"serial: [\"re:x^\"]":                                                      "",
		"serial: [\"re:(a|$b)$c\"]":                                                "",
		"{transport: [nvme], vendor: [Samsung]}":                                   `exclude[0].vendor: found "Samsung", expected none: nvme disks have no vendor`,
		"{names: ['nvme*'], vendor: [Samsung]}":                                    `exclude[0].vendor: found "Samsung", expected none: nvme disks have no vendor`,
		"{transport: [virtio, nvme], names: ['re:nvme[0-9]n1'], vendor: [X]}":      `exclude[0].vendor: found "X", expected none: nvme disks have no vendor`,
		"{transport: [nvme], wwn: ['naa.*']}":                                      `exclude[0].wwn[0]: found "naa.*", ` + nvmeWords,
		"{transport: [nvme], wwn: ['eui.*', '[mn]aa.5?']}":                         "",
		"{transport: [nvme], wwn: ['eui']}":                                        `exclude[0].wwn[0]: found "eui", ` + nvmeWords,
		"{transport: [nvme], wwn: ['0x5000*']}":                                    `exclude[0].wwn[0]: found "0x5000*", ` + nvmeWords,
		"{transport: [nvme, virtio], wwn: ['re:naa[.]5.*']}":                       `exclude[0].wwn[0]: found "re:naa[.]5.*", ` + nvmeWords,
		"{transport: [nvme], serial: [n4294967295-ABCDEFGHIJKLMNOPQRSTU]}":         `exclude[0].serial[0]: found "n4294967295-ABCDEFGHIJKLMNOPQRSTU", expected at most 32 characters: nvme shortens each serial to this length`,
		"{transport: [nvme, virtio], serial: [n4294967295-ABCDEFGHIJKLMNOPQRSTU]}": `exclude[0].serial[0]: found "n4294967295-ABCDEFGHIJKLMNOPQRSTU", expected at most 20 characters: virtio shortens each serial to this length (if you mean other disks, name their transport, such as transport: [scsi])`,
		"{transport: [scsi], model: [Samsung SSD 870 EVO]}":                        `exclude[0].model[0]: found "Samsung SSD 870 EVO", expected at most 16 characters: scsi shortens each model to this length`,
		"{names: ['sd*'], vendor: ['SEAGATE X*']}":                                 `exclude[0].vendor[0]: found "SEAGATE X*", expected at most 8 characters: scsi shortens each vendor to this length`,
		"{transport: [virtio], vendor: [QEMU]}":                                    `exclude[0].vendor[0]: found "QEMU", expected a value that begins with 0x, as the vendor of every virtio disk does`,
		"{transport: [virtio, dm], model: [X]}":                                    `exclude[0].model: found "X", expected none: virtio and dm disks have no model`,
		"{transport: [nvme], names: ['re:vd.']}":                                   `exclude[0].names[0]: found "re:vd.", expected a pattern that can match a disk: the exclusion matches only disks with the transport nvme`,
		"names: [vd]":                                                              `exclude[0].names[0]: found "vd", ` + diskWords,
		"names: [vdb, nvme0]":                                                      `exclude[0].names[1]: found "nvme0", ` + diskWords,
		"names: [nvme0n1p]":                                                        `exclude[0].names[0]: found "nvme0n1p", ` + diskWords,
		"names: [nvme0n1p1]":                                                       "",
		"names: [\"re:vdb1\"]":                                                     "",
		"{names: [nvme0n1], partitions: true}":                                     "",
		"mapper_names: [a]":                                                        "",
	} {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "{"), "}")
		if _, err := Load(source(t, "classes: [{name: a, directory: /a, "+line+"}]", nil)); err != nil {
			t.Errorf("%s in a class: %v", line, err)
		}
		src := source(t, "exclude: [{"+line+"}]", nil)
		_, err := Load(src)
		if got := strings.TrimPrefix(message(src, err), "FILE:1: "); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
		}
	}
}

// TestPossibleSelectors checks that a selector is not a fault if some disk can match it.
func TestPossibleSelectors(t *testing.T) {
	for _, file := range []string{
		"serial: [0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f]", "transport: [scsi, virtio], serial: [ABCDEFGHIJKLMNOPQRSTU]", "names: [vdb], serial: [ABCDEFGHIJKLMNOPQRST*]",
		"names: [vdb], serial: ['re:A{20}B*|C{30}']", "names: ['vd*', 'sd[a-z1]', 'nvme0n1', 'md0', 'vd\\b']", "partitions: true, names: ['vd*', vdb1, 'sd[a-z1-9]', 'nvme0n1p1', 're:vd[a-z]']",
		"names: ['loop*', 'vd*'], backing_file: ['/srv/ci/*.img', '/srv/[ab]/?']", "names: ['re:loop[0-9]|vdb'], backing_file: [/srv/ci/a]", "transport: [dm], names: ['re:dm-[0-9]+'], mapper_names: [a]", "transport: [dm, virtio]", "serial: ['re:^a$', 're:a?^b', 're:(a$|b)']", "names: ['sd*'], wwn: ['naa.5*'], model: [X]",
		"transport: [nvme], wwn: [eui.0025*, 'nvme.*', 'uuid.?*', '*', '?ui.*', '[en]*', 're:.*', 're:e.*', 're:(eui|naa).*', 're:uuid[.].*']", "transport: [nvme], model: ['Samsung SSD 980 PRO 2TB'], serial: [ABCDEFGHIJKLMNOPQRST*]",
		"transport: [nvme, scsi], vendor: [ATA], model: ['Samsung SSD 980 PRO 2TB'], wwn: ['naa.5*', iqn.1]", "transport: [virtio], vendor: ['0x1af4', '?x*', '*', '0[xX]1af4']", "vendor: [QEMU]", "names: ['re:vd.|sd.'], model: [X]", "names: ['xvd*'], vendor: [X]",
	} {
		if _, err := Load(source(t, "classes: [{name: a, directory: /a, "+file+"}]", nil)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, file := range []string{"transport: [scsi], serial: [0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f]", "names: ['sd*', 'nvme*'], serial: [0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f]", "names: [vdb1]", "partitions: true, names: [vdb]",
		"names: ['loop*']", "backing_file: [/srv/ci/a*]", "mapper_names: [vg0-system*]", "transport: [dm]", "transport: [dm], serial: [LVM-*]", "transport: [nvme, scsi], vendor: [ATA], wwn: ['naa.*']", "names: ['*', 'xv*'], vendor: [QEMU]",
		`serial: ['\[z-a]', '[^b-a]', '[b-ad]', '[\]]', 'a[\\-\]]']`, "transport: [nvme], wwn: ['[mn]*', 're:(?i)EUI.*']", "names: ['d*', 're:dm-[0]', loop7p1]"} {
		if _, err := Load(source(t, "exclude: [{"+file+"}]", nil)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

const (
	rangeWords = `expected a range of sizes such as 5GiB..100GiB, 5GiB.. or ..100GiB, the first size not larger than the second`
	nvmeWords  = `expected a value that begins with eui. or nvme. or uuid., as the wwn of every nvme disk does`
	diskWords  = `expected the name of a disk, such as vdb or nvme0n1, or of a partition, such as vdb1 or nvme0n1p1`
	textWords  = `expected a pattern of at most 128 visible characters: a glob such as FAST-*, or a regular expression after re:`
	kindWords  = `expected a pattern that can match a disk: beside vd, sd and nvme a kind of device is named by its letters, such as dm-*`
)
