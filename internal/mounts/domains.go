package mounts

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// domainDirectories are the directories with the configuration of libvirt's virtual machines. /etc/libvirt/qemu
// contains all defined virtual machines, and /run/libvirt/qemu contains the running virtual machines.
var domainDirectories = []string{"/etc/libvirt/qemu", "/run/libvirt/qemu"}

// domainClaims returns the claims of libvirt's domains. For each unreadable directory, unreadable file, and file that
// is not XML, domainClaims returns a claim without a Spec.
func domainClaims(root string) []Claim {
	var claims []Claim
	for _, dir := range domainDirectories {
		names, err := list(root, dir, ".xml")
		if err != nil {
			claims = append(claims, Claim{Where: dir})
		}
		for _, name := range names {
			text, err := ReadFile(filepath.Join(root, name))
			if err == nil {
				claims, err = parseDomain(claims, text, name)
			}
			if err != nil {
				claims = append(claims, Claim{Where: name})
			}
		}
	}
	return claims
}

// parseDomain adds a claim for each path below /dev that a libvirt domain names in <source dev=…> or <source file=…>
// (https://libvirt.org/formatdomain.html). parseDomain reads <source> elements anywhere in the file.
func parseDomain(claims []Claim, text, where string) ([]Claim, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return claims, nil
		}
		if err != nil {
			return claims, err
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "source" {
			continue
		}
		line, _ := d.InputPos()
		for _, a := range e.Attr {
			if slices.Contains([]string{"dev", "file"}, a.Name.Local) && strings.HasPrefix(a.Value, "/dev/") {
				claims = append(claims, Claim{lineLocation(where, line), a.Value})
			}
		}
	}
}
