package provisioner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

// object contains the fields that the function `parse` reads from a Kubernetes object.
type object struct {
	Kind  string            `yaml:"kind"`
	Data  map[string]string `yaml:"data"`
	Items []object          `yaml:"items"`
}

// parse returns the provisioner's configuration from the content of a file.
func parse(data []byte) (*values, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file has neither the chart's classes nor a ConfigMap with a storageClassMap")
		}
		if err != nil {
			return nil, err
		}
		// Kubernetes objects other than ConfigMaps, and YAML documents that are not objects, may have any form.
		var o object
		if n.Decode(&o) == nil && o.Kind != "" {
			for _, o := range append(o.Items, o) {
				if o.Kind == "ConfigMap" && o.Data["storageClassMap"] != "" {
					return configMap(o.Data)
				}
			}
			continue
		}
		var v values
		if err := n.Decode(&v); err != nil {
			return nil, err
		}
		if len(v.Classes) > 0 {
			return v.withDefaults(), nil
		}
	}
}

func configMap(data map[string]string) (*values, error) {
	var v values
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(data["storageClassMap"]), &n); err != nil {
		return nil, fmt.Errorf("storageClassMap: %w", err)
	}
	if len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("storageClassMap: found no mapping of classes, expected one")
	}
	pairs := n.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		var c class
		if err := pairs[i+1].Decode(&c); err != nil {
			return nil, fmt.Errorf("storageClassMap: %s: %w", disk.Visible(pairs[i].Value), err)
		}
		c.Name = pairs[i].Value
		v.Classes = append(v.Classes, c)
	}
	for key, value := range map[string]*bool{"useNodeNameOnly": &v.UseNodeNameOnly, "setPVOwnerRef": &v.SetPVOwnerRef} {
		if text := strings.TrimSpace(data[key]); text != "" {
			if err := yaml.Unmarshal([]byte(text), value); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return v.withDefaults(), nil
}

// withDefaults sets empty fields of v to the defaults of the chart and the provisioner, and returns v.
func (v *values) withDefaults() *values {
	for i := range v.Classes {
		c := &v.Classes[i]
		c.MountDir = cmp.Or(c.MountDir, c.HostDir)
		c.VolumeMode = cmp.Or(c.VolumeMode, "Filesystem")
		c.NamePattern = cmp.Or(c.NamePattern, "*")
	}
	return v
}
